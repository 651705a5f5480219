// Who is told of alerts, how that goes, and whether it works.

import { Alert as Message, Button, Card, Group, Stack, Switch, Table, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { useChannels, useRules } from "../../api/alerts";
import { answer, api, words, type Channel } from "../../api/client";
import { useChange } from "../../api/queries";
import { Confirm } from "../../ui/Confirm";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Mark, Status } from "../../ui/Status";
import { Ago } from "../../ui/zone";
import { ChannelForm } from "./ChannelForm";

export function Channels() {
  const channels = useChannels();
  const [edited, edit] = useState<Channel | "new" | null>(null);
  const [doomed, doom] = useState<Channel | null>(null);
  const remove = useChange(
    (id: string) => answer(api.DELETE("/api/v1/settings/channels/{id}", { params: { path: { id } } })),
    "channels",
  );
  const make = <Button onClick={() => edit("new")}>New channel</Button>;
  return (
    <Stack>
      <Loaded
        query={channels}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="Nobody is told yet" action={make}>
              A channel brings alerts to a webhook, an Alertmanager, Slack or by e-mail.
            </Empty>
          )
        }
      >
        {(all) => (
          <>
            <Group>{make}</Group>
            {all.map((channel) => (
              <One key={channel.id} channel={channel} onEdit={() => edit(channel)} onDelete={() => doom(channel)} />
            ))}
          </>
        )}
      </Loaded>
      {edited && <ChannelForm {...(edited !== "new" && { channel: edited })} onClose={() => edit(null)} />}
      {doomed && (
        <Confirm
          title={`Delete the channel ${doomed.name}?`}
          verb="Delete"
          action={() => remove.mutateAsync(doomed.id)}
          onClose={() => doom(null)}
        >
          <Text>What is on its way to it is not delivered any more.</Text>
        </Confirm>
      )}
    </Stack>
  );
}

/** Where a channel leads, as far as it is shown. */
function targetOf({ settings }: Channel): string {
  const { url, to } = settings as { url?: string; to?: string | string[] };
  return [to ?? []].flat().join(", ") || url || "set, and not shown";
}

function One({ channel, onEdit, onDelete }: { channel: Channel; onEdit: () => void; onDelete: () => void }) {
  const rules = useRules();
  const { id, name, type, enabled, severities, ruleIds, sendResolved, delivery, dead } = channel;
  const test = useChange(
    () => answer(api.POST("/api/v1/settings/channels/{id}/test", { params: { path: { id } } })),
    "channels",
  );
  const enable = useChange(
    (next: boolean) =>
      answer(api.PUT("/api/v1/settings/channels/{id}", { params: { path: { id } }, body: { enabled: next } as never })),
    "channels",
  );
  const ruleName = (ruleId: string) => rules.data?.find((rule) => rule.id === ruleId)?.name ?? ruleId;
  const filters = [
    severities.length > 0 && `severity ${severities.join(" or ")}`,
    ruleIds.length > 0 && `rule ${ruleIds.map(ruleName).join(" or ")}`,
  ].filter(Boolean);
  return (
    <Card withBorder padding="md" component="section" aria-label={name}>
      <Group justify="space-between" align="flex-start">
        <Group gap="xs">
          <Title order={2} size="h5" className="title">
            {name}
          </Title>
          <Mark>{type}</Mark>
        </Group>
        <Group gap="xs">
          <Switch
            size="xs"
            checked={enabled}
            aria-label={`${name}: enabled`}
            onChange={(event) =>
              enable.mutate(event.currentTarget.checked, {
                onError: (error) => notifications.show({ color: "red", message: words(error) }),
              })
            }
          />
          <Button
            size="compact-xs"
            variant="default"
            loading={test.isPending}
            onClick={() => test.mutate()}
            aria-label={`Test ${name}`}
          >
            Test
          </Button>
          <Button size="compact-xs" variant="default" onClick={onEdit} aria-label={`Edit ${name}`}>
            Edit
          </Button>
          <Button size="compact-xs" variant="default" onClick={onDelete} aria-label={`Delete ${name}`}>
            Delete
          </Button>
        </Group>
      </Group>
      <Text size="sm" ff="monospace" className="title">
        {targetOf(channel)}
      </Text>
      <Text size="sm" c="dimmed">
        {filters.length > 0 ? `Told of ${filters.join(" and ")}` : "Told of every alert"}
        {sendResolved ? ", and of its end." : ", not of its end."}
      </Text>
      <Group gap="xs" mt={4}>
        <Text size="sm" component="div">
          <Status>{enabled ? delivery.state : "disabled"}</Status>
        </Text>
        <Text size="sm" span>
          {delivery.lastDeliveredAt && (
            <>
              last delivered <Ago at={delivery.lastDeliveredAt} />
            </>
          )}
          {delivery.waiting > 0 && ` ${count(delivery.waiting)} waiting`}
          {delivery.dead > 0 && ` ${count(delivery.dead)} given up`}
        </Text>
      </Group>
      {delivery.lastError && (
        <Text size="sm" mt={4}>
          Last error, <Ago at={delivery.lastErrorAt} />: {delivery.lastError}
        </Text>
      )}
      <div role="status">
        {test.data && (
          <Message mt="xs" variant="outline" color={test.data.delivered ? "teal" : "red"}>
            {test.data.delivered
              ? "The test message was delivered."
              : `The test message was not delivered: ${test.data.error}`}
          </Message>
        )}
        {test.error && (
          <Message mt="xs" variant="outline" color="red">
            {words(test.error)}
          </Message>
        )}
      </div>
      {dead.length > 0 && (
        <details>
          <summary>
            <Text span size="sm">
              Given up after 24 hours
            </Text>
          </summary>
          <Table.ScrollContainer minWidth={480} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label={`Given up: ${name}`} fz="sm">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">Alert</Table.Th>
                  <Table.Th scope="col">State</Table.Th>
                  <Table.Th scope="col">Given up</Table.Th>
                  <Table.Th scope="col">Error</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {dead.map((each) => (
                  <Table.Tr key={`${each.alertId} ${each.state}`}>
                    <Table.Td className="title">
                      {each.ruleName} of {each.resourceName}
                    </Table.Td>
                    <Table.Td>{each.state}</Table.Td>
                    <Table.Td>
                      <Ago at={each.deadAt} />
                    </Table.Td>
                    <Table.Td className="title">{each.error}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </details>
      )}
    </Card>
  );
}
