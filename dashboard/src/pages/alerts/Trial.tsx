// What a condition means before it is saved: for the present values, and for the past.

import { Alert as Message, Card, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo } from "react";
import { useBacktest, usePresent, type Condition } from "../../api/alerts";
import { ApiError, words, type Backtest, type InstantSample } from "../../api/client";
import { useRange } from "../../api/queries";
import { Chart, limitLine } from "../../ui/Chart";
import { count, duration, fullTime } from "../../ui/format";
import { Loaded } from "../../ui/Loaded";
import { RangePicker } from "../../ui/RangePicker";
import { formatOf, linesOf, textOf } from "../../ui/series";
import { Mark } from "../../ui/Status";
import { useSpan } from "../../ui/url";
import { useZone } from "../../ui/zone";
import { crosses, metricOf } from "./words";

const SHOWN = 8; // of the present values, those that would fire first
const EPISODES_SHOWN = 20;
const STEPS = [15, 30, 60, 120, 300, 600]; // s; agents push every 15 s
const POINTS = 2_100; // a series: seven days every five minutes

/** The step of a backtest: finer than a chart's, or short episodes would be missed. */
const stepOf = (seconds: number) => STEPS.find((step) => seconds / step <= POINTS) ?? STEPS.at(-1)!;

export function Trial({ condition, valid }: { condition: Condition; valid: boolean }) {
  const present = usePresent(condition.metric);
  const refused = present.error instanceof ApiError && present.error.status === 400; // said below the selector
  const known = !present.isPending && !present.isPlaceholderData; // what is refused need not be asked for twice more
  return (
    <Stack>
      {condition.metric && !refused && <Present present={present} condition={condition} valid={valid} />}
      <Past condition={condition} valid={valid && known && !refused} />
    </Stack>
  );
}

interface PresentProps {
  present: ReturnType<typeof usePresent>;
  condition: Condition;
  valid: boolean;
}

function Present({ present, condition, valid }: PresentProps) {
  const { metric, operator, threshold } = condition;
  const format = formatOf(metricOf(metric));
  const fires = ({ value }: InstantSample) => valid && crosses(operator, value, threshold);
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        Now
      </Title>
      <Loaded query={present}>
        {(series) => {
          const labels = linesOf(series.map(({ metric: of }) => ({ metric: of, values: [] })));
          const rows = series
            .map((sample, index) => ({ sample, label: labels[index]!.label, fires: fires(sample) }))
            .sort((a, b) => Number(b.fires) - Number(a.fires));
          const firing = rows.filter((row) => row.fires).length;
          return (
            <>
              <Text size="sm" role="status">
                {series.length === 0
                  ? "No series matches now."
                  : `${count(series.length)} series, ${firing === 0 ? "none" : count(firing)} would fire now.`}
              </Text>
              {rows.length > 0 && (
                <Table aria-label="Present values" fz="sm" layout="fixed">
                  <Table.Tbody>
                    {rows.slice(0, SHOWN).map(({ sample, label, fires: isFiring }, index) => (
                      <Table.Tr key={index}>
                        <Table.Td className="title">
                          {label}
                        </Table.Td>
                        <Table.Td ta="right" w={130}>
                          {isFiring && <Mark tone="bad">fires</Mark>} {format(sample.value)}
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              )}
              {rows.length > SHOWN && (
                <Text size="xs" c="dimmed">
                  and {count(rows.length - SHOWN)} others
                </Text>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Past({ condition, valid }: { condition: Condition; valid: boolean }) {
  const { span, setFixed } = useSpan();
  const { metric, threshold } = condition;
  const step = stepOf("from" in span ? span.to - span.from : span.lastSeconds);
  const range = useRange(valid ? metric : "", span, step);
  const backtest = useBacktest(valid && metric ? condition : null, span, step);
  const name = metricOf(metric);
  const format = useMemo(() => formatOf(name), [name]);
  const bands = useMemo(() => bandsOf(backtest.data), [backtest.data]);
  const lines = useMemo(() => {
    if (!range.data || range.data.series.length === 0) return [];
    return [limitLine("Threshold", range.data.window, threshold), ...linesOf(range.data.series)];
  }, [range.data, threshold]);
  return (
    <Card withBorder padding="md">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Before now
        </Title>
        <RangePicker />
      </Group>
      {!metric || !valid ? (
        <Text size="sm" c="dimmed">
          With a selector and a threshold it is shown here when the rule would have fired.
        </Text>
      ) : backtest.error ? (
        <Message color="red" variant="outline" role="alert">
          {words(backtest.error)}
        </Message>
      ) : (
        <Loaded query={range}>
          {({ window }) => (
            <Stack gap="xs">
              <Chart
                title="Values, and when it would have fired"
                window={window}
                lines={lines}
                format={format}
                bands={bands}
                onZoom={setFixed}
                height={240}
              />
              {backtest.data && <Episodes backtest={backtest.data} step={step} format={format} end={window.end} />}
            </Stack>
          )}
        </Loaded>
      )}
    </Card>
  );
}

/** The times in which anything fires, without overlaps. */
function bandsOf(backtest: Backtest | undefined): [number, number][] {
  const bands: [number, number][] = [];
  const spans = (backtest?.episodes ?? [])
    .map(({ start, end }): [number, number] => [start, end ?? Number.MAX_SAFE_INTEGER])
    .sort(([a], [b]) => a - b);
  for (const [from, to] of spans) {
    const last = bands.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else bands.push([from, to]);
  }
  return bands;
}

interface EpisodesProps {
  backtest: Backtest;
  step: number;
  format: (value: number) => string;
  end: number;
}

function Episodes({ backtest, step, format, end }: EpisodesProps) {
  const { zone } = useZone();
  const { episodes } = backtest;
  const labelOf = useMemo(() => {
    const series = new Map(episodes.map(({ metric }) => [textOf(metric), { metric, values: [] }]));
    const lines = linesOf([...series.values()]);
    const labels = new Map([...series.keys()].map((text, index) => [text, lines[index]!.label]));
    return (metric: Record<string, string>) => labels.get(textOf(metric))!;
  }, [episodes]);
  return (
    <>
      <Text size="sm" role="status">
        {backtest.count === 0
          ? "It would not have fired."
          : `It would have fired ${backtest.count === 1 ? "once" : `${count(backtest.count)} times`}, for ${duration(backtest.firingSeconds)} in all.`}{" "}
        <Text span size="xs" c="dimmed">
          Judged every {duration(step)}.
        </Text>
      </Text>
      {episodes.length > 0 && (
        <>
          <Table.ScrollContainer minWidth={540} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label="Would have fired" fz="sm">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">From</Table.Th>
                  <Table.Th scope="col">For</Table.Th>
                  <Table.Th scope="col">Series</Table.Th>
                  <Table.Th scope="col" ta="right">
                    Peak
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {episodes.slice(0, EPISODES_SHOWN).map((episode, index) => (
                  <Table.Tr key={index}>
                    <Table.Td className="whole">{fullTime(episode.start * 1000, zone)}</Table.Td>
                    <Table.Td className="whole">
                      {duration((episode.end ?? end) - episode.start)}
                      {episode.end === null && ", goes on"}
                    </Table.Td>
                    <Table.Td className="title">{labelOf(episode.metric)}</Table.Td>
                    <Table.Td ta="right" className="whole">{format(episode.peak)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
          {episodes.length > EPISODES_SHOWN && (
            <Text size="xs" c="dimmed">
              The first {EPISODES_SHOWN} of {count(episodes.length)}.
            </Text>
          )}
        </>
      )}
    </>
  );
}
