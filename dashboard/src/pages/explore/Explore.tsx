// One selector over time: chart, table, and ways to take it elsewhere.

import { Alert, Button, Card, Group, NativeSelect, Stack, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo, useRef } from "react";
import { ApiError } from "../../api/client";
import { useRange } from "../../api/queries";
import { Chart } from "../../ui/Chart";
import { copy } from "../../ui/Copy";
import { DataTable, type Column } from "../../ui/DataTable";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { Pointer } from "../../ui/Pointer";
import { RangePicker } from "../../ui/RangePicker";
import { formatOf, linesOf, textOf } from "../../ui/series";
import { useSpan, useUrl } from "../../ui/url";
import { Editor } from "./Editor";

const STEPS = ["15s", "30s", "1m", "5m", "15m", "1h"];
const SECONDS: Record<string, number> = { "15s": 15, "30s": 30, "1m": 60, "5m": 300, "15m": 900, "1h": 3_600 };
const EXAMPLES = [
  "container_cpu_usage_percent",
  "container_memory_working_set_bytes",
  "agent_up",
  '{__name__=~"container_network_.*_per_second"}',
];

interface Row {
  metric: Record<string, string>;
  /** What tells it from the others. */
  label: string;
  /** All its labels. */
  text: string;
  last: number;
  least: number;
  most: number;
}

/** Quote *text* for a POSIX shell. */
const shell = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export default function Explore() {
  const [params, change] = useUrl();
  const { span, step: fitting, setFixed } = useSpan();
  const selector = params.get("metric") ?? "";
  const chosen = params.get("step") ?? "";
  const step = SECONDS[chosen] ?? fitting;
  const draft = useRef(selector);
  const range = useRange(selector, span, step);
  const refused = range.error instanceof ApiError && range.error.status === 400 ? range.error.message : null;
  const run = (text: string) => {
    if (text.trim() === selector) void range.refetch();
    else change({ metric: text.trim(), sort: null }, { push: true });
  };
  const take = async (what: string, text: string) =>
    notifications.show(
      (await copy(text))
        ? { message: `${what} is copied.` }
        : { color: "red", message: "This browser does not let pages copy." },
    );
  const curl = () => {
    const window = range.data?.window ?? { start: 0, end: 0 };
    const given = { metric: selector, start: window.start, end: window.end, step: `${step}s` };
    const data = Object.entries(given).map(([name, value]) => ` \\\n  --data-urlencode ${shell(`${name}=${value}`)}`);
    return `curl -G ${shell(`${location.origin}/api/v1/metrics/range`)} \\\n  -H "X-API-Key: $MONITOR_API_KEY"${data.join("")}`;
  };
  return (
    <Page title="Explore" tools={<RangePicker />}>
      <Stack>
        <Editor text={selector} wrong={refused !== null} onRun={run} onChange={(text) => void (draft.current = text)} />
        {refused && (
          <Alert color="red" variant="outline" role="alert" title="This is refused">
            <Pointer text={selector} error={refused} />
            {refused}
          </Alert>
        )}
        <Group gap="xs">
          <Button
            size="xs"
            loading={range.isFetching && !range.data}
            onClick={() => run(draft.current)}
          >
            Run
          </Button>
          <NativeSelect
            size="xs"
            aria-label="Step"
            value={SECONDS[chosen] ? chosen : ""}
            onChange={(event) => change({ step: event.currentTarget.value }, { push: true })}
            data={[{ value: "", label: `Step: automatic (${fitting} s)` }, ...STEPS]}
          />
          <Button size="xs" variant="default" onClick={() => void take("The link", location.href)}>
            Copy link
          </Button>
          <Button size="xs" variant="default" disabled={!range.data} onClick={() => void take("The command", curl())}>
            Copy as curl
          </Button>
          <Button
            size="xs"
            variant="default"
            disabled={!selector}
            onClick={() => void take("The query for a panel of Grafana", selector)}
          >
            Copy as Grafana query
          </Button>
        </Group>
        {selector === "" ? (
          <Examples onPick={run} />
        ) : (
          !refused && (
            <Loaded query={range}>
              {({ window, series }) =>
                series.length === 0 ? (
                  <Empty title="No series">Nothing matches this selector in this range.</Empty>
                ) : (
                  <Answer window={window} series={series} onZoom={setFixed} />
                )
              }
            </Loaded>
          )
        )}
      </Stack>
    </Page>
  );
}

function Examples({ onPick }: { onPick: (text: string) => void }) {
  return (
    <Stack gap="xs" align="flex-start">
      <Text c="dimmed">
        A metric with matchers on its labels, such as Prometheus has them. Enter runs it; Ctrl and Space proposes.
      </Text>
      {EXAMPLES.map((text) => (
        <Button key={text} size="compact-sm" variant="default" ff="monospace" fw={400} onClick={() => onPick(text)}>
          {text}
        </Button>
      ))}
    </Stack>
  );
}

interface AnswerProps {
  window: { start: number; end: number; step: number };
  series: { metric: Record<string, string>; values: number[][] }[];
  onZoom: (from: number, to: number) => void;
}

function Answer({ window, series, onZoom }: AnswerProps) {
  const names = new Set(series.map(({ metric }) => metric.__name__));
  const name = names.size === 1 ? ([...names][0] ?? "") : "";
  const format = useMemo(() => formatOf(name), [name]);
  const [lines, rows] = useMemo(() => {
    const made = linesOf(series);
    return [made, series.map((each, index) => rowOf(each, made[index]!.label))];
  }, [series]);
  const columns = useMemo(() => columnsOf(), []);
  return (
    <>
      <Card withBorder padding="md">
        <Chart title={name || "Values"} window={window} lines={lines} format={format} onZoom={onZoom} height={300} />
      </Card>
      <div>
        <Title order={2} size="h5" mb={4}>
          {count(rows.length)} series
        </Title>
        <DataTable label="Series" rows={rows} columns={columns} rowKey={({ text }) => text} />
      </div>
    </>
  );
}

function rowOf({ metric, values }: AnswerProps["series"][number], label: string): Row {
  let least = Infinity;
  let most = -Infinity;
  for (const [, value] of values) {
    least = Math.min(least, value!);
    most = Math.max(most, value!);
  }
  return { metric, label, text: textOf(metric), last: values.at(-1)?.[1] ?? NaN, least, most };
}

function columnsOf(): Column<Row>[] {
  const number = (key: "last" | "least" | "most", label: string, narrow = false): Column<Row> => ({
    key,
    label,
    numeric: true,
    narrow,
    width: narrow ? "110px" : "100px",
    value: (row) => row[key],
    cell: (row) => formatOf(row.metric.__name__ ?? "")(row[key]),
  });
  return [
    {
      key: "series",
      label: "Series",
      narrow: true,
      value: ({ text }) => text,
      cell: ({ label, text }) => <span title={text}>{label}</span>,
    },
    number("least", "Least"),
    number("most", "Most"),
    number("last", "Last", true),
  ];
}
