// The alerts of one container, and the rules that watch it.

import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import { useAlerts, usePresent, useRules } from "../../api/alerts";
import type { Container, InstantSample, Rule } from "../../api/client";
import { useMe } from "../../api/queries";
import { quoted } from "../../ui/format";
import { formatOf } from "../../ui/series";
import { Status } from "../../ui/Status";
import { Ago } from "../../ui/zone";
import { Answering } from "../alerts/Answering";
import { selectorOf } from "../alerts/selector";
import { isOpen, limitOf, pathOf, Severity, State, valueOf } from "../alerts/words";

const RESOLVED_SHOWN = 3; // after those that are open

interface Watching {
  rule: Rule;
  series: InstantSample[];
}

export function Alerts({ container, agentName }: { container: Container; agentName: string }) {
  const alerts = useAlerts();
  const rules = useRules();
  const present = usePresent(`{agent_id=${quoted(container.agentId)},container_id=${quoted(container.id)}}`);
  const me = useMe();
  const own = (alerts.data ?? []).filter(
    ({ agentId, resourceType, resourceId }) =>
      resourceType === "container" && agentId === container.agentId && resourceId === container.id,
  );
  const shown = [...own.filter(isOpen), ...own.filter((alert) => !isOpen(alert)).slice(0, RESOLVED_SHOWN)];
  const watching = useMemo(
    (): Watching[] =>
      (rules.data ?? [])
        .map((rule) => {
          const belongs = selectorOf(rule.metric);
          return { rule, series: (present.data ?? []).filter(({ metric }) => belongs(metric)) };
        })
        .filter(({ series }) => series.length > 0),
    [rules.data, present.data],
  );
  const create = new URLSearchParams({
    name: `CPU of ${container.name}`,
    metric: `container_cpu_usage_percent{agent=${quoted(agentName)},container=${quoted(container.name)}}`,
    operator: "gt",
    threshold: "90",
  });
  return (
    <Card withBorder padding="md" component="section" aria-label="Alerts">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Alerts
        </Title>
        {me.data?.role !== "viewer" && (
          <Button component={Link} to={`/alerts/rules/new?${create}`} size="xs" variant="default">
            Make a rule
          </Button>
        )}
      </Group>
      {shown.length === 0 ? (
        <Text size="sm" c="dimmed">
          None has fired for it.
        </Text>
      ) : (
        <Table.ScrollContainer minWidth={560} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
          <Table aria-label="Alerts of this container" fz="sm">
            <Table.Tbody>
              {shown.map((alert) => (
                <Table.Tr key={alert.id}>
                  <Table.Td>
                    <State alert={alert} />
                  </Table.Td>
                  <Table.Td>
                    <Link to={pathOf(alert)}>{alert.ruleName}</Link>
                  </Table.Td>
                  <Table.Td>
                    {valueOf(alert)}{" "}
                    <Text span size="xs" c="dimmed">
                      {limitOf(alert, alert.metric.__name__ ?? "")}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <Ago at={alert.firedAt} />
                  </Table.Td>
                  <Table.Td>
                    <Answering alert={alert} size="compact-xs" />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {watching.length > 0 && (
        <>
          <Text size="sm" fw={600} mt="sm" mb={4}>
            Rules that watch it
          </Text>
          <Table.ScrollContainer minWidth={460} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label="Rules that watch it" fz="sm">
              <Table.Tbody>
                {watching.map(({ rule, series }) => (
                  <Table.Tr key={rule.id}>
                    <Table.Td>
                      <Link to={`/alerts/rules/${rule.id}`}>{rule.name}</Link>
                    </Table.Td>
                    <Table.Td>{limitOf(rule, series[0]!.metric.__name__ ?? "")}</Table.Td>
                    <Table.Td>now {series.map(valueNow).join(", ")}</Table.Td>
                    <Table.Td>
                      <Severity>{rule.severity}</Severity>
                    </Table.Td>
                    <Table.Td>
                      <Status>{rule.enabled ? "enabled" : "disabled"}</Status>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </Card>
  );
}

const valueNow = ({ metric, value }: InstantSample) => formatOf(metric.__name__ ?? "")(value);
