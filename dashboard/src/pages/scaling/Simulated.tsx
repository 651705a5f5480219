// What a policy would have done: replicas as they were and as they would have been wanted, and what was measured.

import { Alert, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useMemo } from "react";
import { words, type Policy, type Simulation } from "../../api/client";
import { useSimulation, type Fields } from "../../api/scaling";
import { Chart, limitLine, type Line } from "../../ui/Chart";
import { count, duration, fullTime, percent } from "../../ui/format";
import { Loaded } from "../../ui/Loaded";
import { useSpan } from "../../ui/url";
import { useZone } from "../../ui/zone";
import { METRICS } from "./words";

const CHANGES_SHOWN = 20;

type Targets = Partial<Pick<Policy, "cpuTargetPercent" | "memoryTargetPercent" | "nodePressureTargetPercent">>;
const TARGETS: [metric: string, target: keyof Targets][] = [
  ["cpu", "cpuTargetPercent"],
  ["memory", "memoryTargetPercent"],
  ["node_pressure", "nodePressureTargetPercent"],
];

/** *policy*: the id of a stored one, or the fields of one that need not exist; null asks for nothing. */
export function Simulated({ policy, targets }: { policy: string | Fields | null; targets: Targets }) {
  const { span, setFixed } = useSpan();
  const simulation = useSimulation(policy, span);
  const lines = useMemo(() => (simulation.data ? linesOf(simulation.data) : null), [simulation.data]);
  const limits = useMemo(
    () =>
      simulation.data
        ? TARGETS.filter(([, name]) => targets[name] != null).map(([metric, name]) =>
            limitLine(`${METRICS[metric]} target`, simulation.data.window, targets[name]!),
          )
        : [],
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [simulation.data, ...TARGETS.map(([, name]) => targets[name])],
  );
  if (policy === null) return null;
  if (simulation.error && !simulation.data)
    return (
      <Alert color="red" variant="outline" role="alert">
        {words(simulation.error)}
      </Alert>
    );
  return (
    <Loaded query={simulation}>
      {({ window, timeline, changes, secondsOverTarget }) =>
        timeline.length === 0 ? (
          <Text size="sm" c="dimmed">
            Nothing is stored of that time.
          </Text>
        ) : (
          <Stack gap="xs">
            <Text size="sm" role="status">
              {changes === 0
                ? "It would have changed nothing."
                : `It would have changed the replicas ${changes === 1 ? "once" : `${count(changes)} times`}.`}{" "}
              {secondsOverTarget > 0 && `Usage was above a target for ${duration(secondsOverTarget)}. `}
              <Text span size="xs" c="dimmed">
                Replicas and usage are those observed then: what the changes would have made of them is not known.
              </Text>
            </Text>
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              <Chart
                title="Replicas"
                window={window}
                lines={lines!.replicas}
                format={count}
                onZoom={setFixed}
              />
              <Chart title="Usage" window={window} lines={[...lines!.values, ...limits]} format={percent} onZoom={setFixed} />
            </SimpleGrid>
            <Changes timeline={timeline} />
          </Stack>
        )
      }
    </Loaded>
  );
}

function linesOf({ timeline }: Simulation): { replicas: Line[]; values: Line[] } {
  const times = timeline.map(({ ts }) => Date.parse(ts) / 1000);
  const line = (label: string, value: (point: Simulation["timeline"][number]) => number | undefined): Line => ({
    label,
    values: timeline.flatMap((point, index) => {
      const found = value(point);
      return found === undefined ? [] : [[times[index]!, found]];
    }),
  });
  const metrics = [...new Set(timeline.flatMap(({ values }) => Object.keys(values)))];
  return {
    replicas: [line("Observed", ({ current }) => current), line("Wanted", ({ desired }) => desired)],
    values: metrics.map((metric) => line(METRICS[metric] ?? metric, ({ values }) => values[metric])),
  };
}

function Changes({ timeline }: Pick<Simulation, "timeline">) {
  const { zone } = useZone();
  const changes = timeline.filter(({ action }) => action);
  if (changes.length === 0) return null;
  return (
    <>
      <Table.ScrollContainer minWidth={480} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table aria-label="It would have changed" fz="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">Time</Table.Th>
              <Table.Th scope="col">Change</Table.Th>
              <Table.Th scope="col">Reason</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {changes.slice(0, CHANGES_SHOWN).map(({ ts, current, desired, reason }) => (
              <Table.Tr key={ts}>
                <Table.Td className="whole">{fullTime(Date.parse(ts), zone)}</Table.Td>
                <Table.Td className="whole">
                  {current} → {desired}
                </Table.Td>
                <Table.Td className="title">{reason}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {changes.length > CHANGES_SHOWN && (
        <Text size="xs" c="dimmed">
          The first {CHANGES_SHOWN} of {count(changes.length)}.
        </Text>
      )}
    </>
  );
}
