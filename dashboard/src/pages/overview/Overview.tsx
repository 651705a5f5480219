// What runs, at a glance: agents, clusters, what uses most.

import { Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMemo, type ReactNode } from "react";
import { Link } from "react-router";
import type { Agent, Container, Node, Pod, RangeSeries } from "../../api/client";
import { useAgents, useContainers, useNodes, usePods, useRange } from "../../api/queries";
import { Chart, type Line } from "../../ui/Chart";
import { bytes, count, mebibytes, percent } from "../../ui/format";
import { Loaded } from "../../ui/Loaded";
import { Onboarding } from "../../ui/Onboarding";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { Meter, Status } from "../../ui/Status";
import { useSpan } from "../../ui/url";
import { Firing } from "./Firing";
import { Scaled } from "./Scaled";

const TOP = 5; // of each list
const OFFLINE_SHOWN = 3; // names beside the number
const SUMS = '{__name__=~"agent_containers_cpu_usage_percent|agent_containers_memory_working_set_bytes"}';

export default function Overview() {
  const agents = useAgents();
  return (
    <Page title="Overview" tools={agents.data?.some(({ lastSeen }) => lastSeen) && <RangePicker />}>
      <Loaded query={agents}>
        {(all) =>
          all.some(({ lastSeen }) => lastSeen) ? (
            <Dashboard agents={all} />
          ) : (
            <Card withBorder maw={760} padding="lg">
              <Title order={2} size="h4" mb="sm">
                Connect the first agent
              </Title>
              <Onboarding />
            </Card>
          )
        }
      </Loaded>
    </Page>
  );
}

function Dashboard({ agents }: { agents: Agent[] }) {
  const containers = useContainers();
  const nodes = useNodes();
  const pods = usePods();
  const offline = agents.filter(({ status }) => status !== "online");
  const clusters = agents.filter(({ nodeCount, podCount }) => nodeCount + podCount > 0);
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        <Figure label="Agents online" value={`${agents.length - offline.length} / ${agents.length}`} to="/agents">
          {offline.length > 0 &&
            `offline: ${offline
              .slice(0, OFFLINE_SHOWN)
              .map(({ name }) => name)
              .join(", ")}${offline.length > OFFLINE_SHOWN ? ", …" : ""}`}
        </Figure>
        <Figure
          label="Containers running"
          value={containers.data ? runningOf(containers.data) : "…"}
          to="/containers"
        />
        <Figure label="Pods running" value={pods.data ? podsOf(pods.data) : "…"} to="/pods" />
        <Figure label="Nodes ready" value={nodes.data ? nodesOf(nodes.data) : "…"} to="/nodes" />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Firing />
        <Scaled />
      </SimpleGrid>
      {clusters.length > 0 && nodes.data && pods.data && (
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
          {clusters.map((agent) => (
            <Cluster key={agent.id} agent={agent} nodes={nodes.data} pods={pods.data} />
          ))}
        </SimpleGrid>
      )}
      <Loaded query={containers}>
        {(all) =>
          all.length > 0 && (
            <>
              <Usage />
              <SimpleGrid cols={{ base: 1, md: 2 }}>
                <Top
                  title="Most CPU"
                  containers={all}
                  agents={agents}
                  value={(container) => container.cpuPercent}
                  format={percent}
                />
                <Top
                  title="Most memory"
                  containers={all}
                  agents={agents}
                  value={(container) => container.memoryUsageMB}
                  format={mebibytes}
                />
              </SimpleGrid>
            </>
          )
        }
      </Loaded>
    </Stack>
  );
}

const of = (part: number, all: number) => `${count(part)} / ${count(all)}`;
const runningOf = (all: Container[]) => of(all.filter(({ state }) => state === "running").length, all.length);
const podsOf = (all: Pod[]) => of(all.filter(({ phase }) => phase === "Running").length, all.length);
const nodesOf = (all: Node[]) => of(all.filter(({ status }) => status === "Ready").length, all.length);

function Figure({ label, value, to, children }: { label: string; value: string; to: string; children?: ReactNode }) {
  return (
    <Card withBorder component={Link} to={to} padding="md">
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <div className="figure">{value}</div>
      {children && (
        <Text size="xs" c="dimmed" lineClamp={1}>
          {children}
        </Text>
      )}
    </Card>
  );
}

function Cluster({ agent, nodes, pods }: { agent: Agent; nodes: Node[]; pods: Pod[] }) {
  const own = nodes.filter(({ agentId }) => agentId === agent.id);
  const phases = new Map<string, number>();
  const ours = pods.filter(({ agentId }) => agentId === agent.id);
  for (const { phase } of ours) phases.set(phase, (phases.get(phase) ?? 0) + 1);
  return (
    <Card withBorder padding="md">
      <Group justify="space-between" mb="xs" wrap="nowrap">
        <Title order={2} size="h5" className="truncate">
          {agent.name}
        </Title>
        <Status>{agent.status}</Status>
      </Group>
      <Text size="sm">Nodes ready: {nodesOf(own)}</Text>
      <Text size="sm">
        Pods: {[...phases].map(([phase, number]) => `${count(number)} ${phase || "unknown"}`).join(", ") || "none"}
      </Text>
      <Text size="sm">Namespaces: {count(new Set(ours.map(({ namespace }) => namespace)).size)}</Text>
    </Card>
  );
}

/** CPU and memory of all containers, one line an agent. */
function Usage() {
  const { span, step, setFixed } = useSpan();
  const range = useRange(SUMS, span, step);
  const [cpu, memory] = useMemo(() => {
    const lines = (name: string) => (range.data?.series ?? []).filter(({ metric }) => metric.__name__ === name).map(lineOf);
    return [lines("agent_containers_cpu_usage_percent"), lines("agent_containers_memory_working_set_bytes")];
  }, [range.data]);
  return (
    <Loaded query={range}>
      {({ window }) => (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Card withBorder padding="md">
            <Chart title="CPU of all containers (100 % = one core)" window={window} lines={cpu} format={percent} onZoom={setFixed} />
          </Card>
          <Card withBorder padding="md">
            <Chart title="Memory of all containers" window={window} lines={memory} format={bytes} onZoom={setFixed} />
          </Card>
        </SimpleGrid>
      )}
    </Loaded>
  );
}

const lineOf = ({ metric, values }: Pick<RangeSeries, "metric"> & Pick<Line, "values">): Line => ({ label: metric.agent ?? "", values });

interface TopProps {
  title: string;
  containers: Container[];
  agents: Agent[];
  value: (container: Container) => number;
  format: (value: number) => string;
}

function Top({ title, containers, agents, value, format }: TopProps) {
  const names = new Map(agents.map(({ id, name }) => [id, name]));
  const first = [...containers].sort((a, b) => value(b) - value(a)).slice(0, TOP);
  const most = Math.max(...first.map(value), Number.MIN_VALUE);
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        {title}
      </Title>
      <table className="data" aria-label={title}>
        <tbody>
          {first.map((container) => (
            <tr key={`${container.agentId} ${container.id}`}>
              <td>
                <Link to={`/containers/${container.agentId}/${encodeURIComponent(container.id)}`}>{container.name}</Link>
                <Text span size="xs" c="dimmed">
                  {" "}
                  {names.get(container.agentId)}
                </Text>
              </td>
              <td className="numeric meters">
                <Meter percent={(value(container) / most) * 100} plain>
                  {format(value(container))}
                </Meter>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
