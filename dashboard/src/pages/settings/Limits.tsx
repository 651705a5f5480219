// What the organization uses, and for how long it is kept.

import { Alert, Button, Card, Group, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useState } from "react";
import { answer, api, words, type Limits as LimitsData } from "../../api/client";
import { useChange, useLimits, useMe } from "../../api/queries";
import { bytes, count } from "../../ui/format";
import { Loaded } from "../../ui/Loaded";

export function Limits() {
  const limits = useLimits();
  return (
    <Loaded query={limits}>
      {(data) => (
        <Stack maw={760}>
          <SimpleGrid cols={{ base: 1, xs: 3 }}>
            {[
              ["Agents", count(data.usage.agents)],
              ["Series with samples today", count(data.usage.series)],
              ["Stored log lines", bytes(data.usage.logBytes)],
            ].map(([label, value]) => (
              <Card key={label} withBorder padding="md">
                <Text size="sm" c="dimmed">
                  {label}
                </Text>
                <div className="figure">{value}</div>
              </Card>
            ))}
          </SimpleGrid>
          <Retention key={`${data.metricsRetention} ${data.logsRetention}`} limits={data} />
        </Stack>
      )}
    </Loaded>
  );
}

const FIELDS = [
  ["metricsRetention", "Metrics"],
  ["logsRetention", "Logs"],
] as const;

function Retention({ limits }: { limits: LimitsData }) {
  const me = useMe();
  const [fields, setFields] = useState({
    metricsRetention: limits.metricsRetention ?? "",
    logsRetention: limits.logsRetention ?? "",
  });
  const save = useChange(
    () =>
      answer(
        api.PUT("/api/v1/settings/limits", {
          body: { metricsRetention: fields.metricsRetention || null, logsRetention: fields.logsRetention || null },
        }),
      ),
    "limits",
  );
  const mayChange = me.data?.role === "admin";
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        Retention
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        What is older is not shown and is removed. A duration such as 30d or 12h; empty means the ceiling of your plan.
      </Text>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Stack>
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            {FIELDS.map(([name, label]) => (
              <TextInput
                key={name}
                label={label}
                description={`In force: ${limits.effective[name]}. At most: ${limits.ceilings[name]}.`}
                value={fields[name]}
                onChange={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
                placeholder={limits.ceilings[name]}
                readOnly={!mayChange}
              />
            ))}
          </SimpleGrid>
          {save.error && (
            <Alert color="red" variant="outline" role="alert">
              {words(save.error)}
            </Alert>
          )}
          {mayChange ? (
            <Group>
              <Button type="submit" loading={save.isPending}>
                Save
              </Button>
              {save.isSuccess && (
                <Text size="sm" role="status">
                  Saved.
                </Text>
              )}
            </Group>
          ) : (
            <Text size="sm" c="dimmed">
              An admin can change this.
            </Text>
          )}
        </Stack>
      </form>
    </Card>
  );
}
