// One alert: what fired, since when, what was done about it, and its series around that time.

import { Alert as Message, Anchor, Card, Code, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMemo, type ReactNode } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { useAlert, useRules } from "../../api/alerts";
import { ApiError, type Alert as AlertData } from "../../api/client";
import { useAgents, useRange, type Span } from "../../api/queries";
import { Chart, limitLine } from "../../ui/Chart";
import { duration, fullTime } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { formatOf, textOf } from "../../ui/series";
import { stepFor } from "../../ui/url";
import { Ago, useNow, useZone } from "../../ui/zone";
import { Answering } from "./Answering";
import { limitOf, Resource, Severity, State, valueOf } from "./words";

const AROUND_SECONDS = 900; // shown before the firing and after the end
const LONGEST_SECONDS = 7 * 86_400; // of a range that the service answers

const BY: Record<string, string> = {
  user: "somebody said so",
  recovered: "the condition is false again",
  gone: "its series is gone",
  rule: "the rule was disabled or deleted",
};

export default function Alert() {
  const { id = "" } = useParams();
  const alert = useAlert(id);
  const gone = alert.error instanceof ApiError && alert.error.status === 404;
  return (
    <Page
      title={alert.data?.ruleName ?? "Alert"}
      before={
        <Anchor component={Link} to="/alerts" size="sm">
          ← All alerts
        </Anchor>
      }
      tools={alert.data && <Answering alert={alert.data} />}
    >
      {gone ? (
        <Empty title="There is no such alert" action={<Link to="/alerts">All alerts</Link>}>
          It may be older than what is kept.
        </Empty>
      ) : (
        <Loaded query={alert}>{(data) => <Detail alert={data} />}</Loaded>
      )}
    </Page>
  );
}

function Detail({ alert }: { alert: AlertData }) {
  const rules = useRules();
  const agents = useAgents();
  const rule = rules.data?.find(({ id }) => id === alert.ruleId);
  const agent = agents.data?.find(({ id }) => id === alert.agentId);
  const metric = alert.metric.__name__ ?? "";
  const pairs: [string, ReactNode][] = [
    ["State", <State key="state" alert={alert} />],
    ["Severity", <Severity key="severity">{alert.severity}</Severity>],
    ["Value when it fired", valueOf(alert)],
    ["Condition", limitOf(alert, metric)],
    [
      "Rule",
      rule ? (
        <Link key="rule" to={`/alerts/rules/${rule.id}`}>
          {rule.name}
        </Link>
      ) : (
        `${alert.ruleName} (deleted)`
      ),
    ],
    [
      `Resource (${alert.resourceType})`,
      <Resource key="resource" alert={alert}>
        {alert.resourceName || alert.resourceId}
      </Resource>,
    ],
    ["Agent", agent?.name ?? alert.agentId],
    ["Fired", <Moment key="fired" at={alert.firedAt} />],
    ...(alert.acknowledgedAt
      ? [["Acknowledged", <Moment key="acknowledged" at={alert.acknowledgedAt} />] as [string, ReactNode]]
      : []),
    ...(alert.acknowledgedBy ? [["Acknowledged by", alert.acknowledgedBy] as [string, ReactNode]] : []),
    ...(alert.resolvedAt
      ? [
          ["Resolved", <Moment key="resolved" at={alert.resolvedAt} />] as [string, ReactNode],
          ["Resolved because", BY[alert.resolvedBy ?? ""] ?? ""] as [string, ReactNode],
          ["It was open for", duration((Date.parse(alert.resolvedAt) - Date.parse(alert.firedAt)) / 1000)] as [string, ReactNode],
        ]
      : []),
  ];
  return (
    <Stack>
      <Text>{alert.message}.</Text>
      {alert.stale && (
        <Message color="yellow" variant="outline" title="Its agent is offline">
          Nothing has been heard since. The alert stays as it is until the agent pushes again.
        </Message>
      )}
      <Card withBorder padding="md">
        <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="sm" component="dl" m={0}>
          {pairs.map(([label, value]) => (
            <div key={label} className="pair">
              <Text component="dt" size="xs" c="dimmed">
                {label}
              </Text>
              <Text component="dd" m={0} size="sm" className="title">
                {value}
              </Text>
            </div>
          ))}
        </SimpleGrid>
        {alert.comment && (
          <>
            <Text size="xs" c="dimmed" mt="sm">
              Comment
            </Text>
            <Text size="sm" className="title said">
              {alert.comment}
            </Text>
          </>
        )}
      </Card>
      <Around alert={alert} />
      <Card withBorder padding="md">
        <Text size="sm" fw={600} mb="xs">
          Labels of the series
        </Text>
        <Group gap={6}>
          {Object.entries(alert.metric).map(([name, value]) => (
            <Code key={name} className="title">
              {name}={value}
            </Code>
          ))}
        </Group>
      </Card>
    </Stack>
  );
}

/** A time in full, and how long ago it was. */
function Moment({ at }: { at: string }) {
  const { zone } = useZone();
  return (
    <>
      {fullTime(Date.parse(at), zone)}{" "}
      <Text span size="xs" c="dimmed">
        <Ago at={at} />
      </Text>
    </>
  );
}

/** The span around an alert; while it is open, up to now. */
function useSpanAround({ firedAt, resolvedAt }: AlertData): Span {
  const now = useNow() / 1000;
  const from = Math.floor(Date.parse(firedAt) / 1000) - AROUND_SECONDS;
  const rest = (now - from) / AROUND_SECONDS;
  if (resolvedAt) {
    const to = Math.ceil(Date.parse(resolvedAt) / 1000) + AROUND_SECONDS;
    return { from, to: Math.min(to, from + LONGEST_SECONDS) };
  }
  // In whole pieces: a span that changed every second would be asked for every second.
  return { lastSeconds: Math.min(LONGEST_SECONDS, Math.ceil(rest) * AROUND_SECONDS) };
}

function Around({ alert }: { alert: AlertData }) {
  const span = useSpanAround(alert);
  const navigate = useNavigate();
  const selector = textOf(alert.metric);
  const name = alert.metric.__name__ ?? "";
  const format = useMemo(() => formatOf(name), [name]);
  const range = useRange(selector, span, stepFor("from" in span ? span.to - span.from : span.lastSeconds));
  const [from, to] = [alert.firedAt, alert.resolvedAt].map((at) => (at ? Date.parse(at) / 1000 : Infinity));
  const bands = useMemo(() => [[from!, Math.min(to!, Number.MAX_SAFE_INTEGER)] as const], [from, to]);
  const lines = useMemo(
    () =>
      range.data && range.data.series.length > 0
        ? [
            { label: alert.resourceName, values: range.data.series.flatMap(({ values }) => values) },
            limitLine("Threshold", range.data.window, alert.threshold),
          ]
        : [],
    [range.data, alert.resourceName, alert.threshold],
  );
  const explore = (start: number, end: number) =>
    `/explore?${new URLSearchParams({ metric: selector, from: `${Math.round(start)}`, to: `${Math.round(end)}` })}`;
  return (
    <Card withBorder padding="md">
      <Loaded query={range}>
        {({ window }) => (
          <>
            <Chart
              title={name}
              window={window}
              lines={lines}
              format={format}
              bands={bands}
              onZoom={(start, end) => void navigate(explore(start, end))}
            />
            <Anchor component={Link} to={explore(window.start, window.end)} size="sm">
              Open in Explore
            </Anchor>
          </>
        )}
      </Loaded>
    </Card>
  );
}
