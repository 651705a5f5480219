// One pod: what it is, what it uses over time, its containers, its logs.

import { Anchor, Card, Group, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo, type ReactNode } from "react";
import { Link, useParams } from "react-router";
import type { Pod as PodData } from "../../api/client";
import { useAgents, usePods, useRange } from "../../api/queries";
import { Chart, type Line } from "../../ui/Chart";
import { bytes, count, quoted, rounded } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { NoProvider } from "../../ui/NoProvider";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { Status } from "../../ui/Status";
import { useSpan } from "../../ui/url";
import { Ago } from "../../ui/zone";
import { useAgentName } from "../containers/Containers";
import { LogPanel } from "../logs/LogPanel";
import { pathOfTail } from "../tail/targets";

const CHARTS: [title: string, metric: string, format: (value: number) => string][] = [
  ["CPU, cores", "kube_pod_cpu_usage_cores", (value) => rounded(value, 3)],
  ["Memory", "kube_pod_memory_working_set_bytes", bytes],
];

export default function Pod() {
  const { agentId = "", namespace = "", name = "" } = useParams();
  const pods = usePods();
  const pod = pods.data?.find(
    (each) => each.agentId === agentId && each.namespace === namespace && each.name === name,
  );
  return (
    <Page
      title={pod?.name ?? "Pod"}
      before={
        <Anchor component={Link} to="/pods" size="sm">
          ← All pods
        </Anchor>
      }
      tools={<RangePicker />}
    >
      <Loaded
        query={pods}
        empty={() =>
          !pod && (
            <Empty title="This pod is not there any more" action={<Link to="/pods">All pods</Link>}>
              Its agent does not report it now. Its stored metrics and logs can still be queried under Explore and Logs.
            </Empty>
          )
        }
      >
        {() => pod && <Detail pod={pod} />}
      </Loaded>
    </Page>
  );
}

function Detail({ pod }: { pod: PodData }) {
  const agents = useAgents();
  const agentName = useAgentName(agents.data);
  const rows: [string, ReactNode][] = [
    ["Phase", <Status key="phase">{pod.phase}</Status>],
    ["Namespace", pod.namespace],
    ["Workload", pod.workload || "–"],
    ["Node", pod.nodeName || "–"],
    ["Cluster", agentName(pod.agentId)],
    ["Address", pod.podIP || "–"],
    ["Restarts", count(pod.restarts)],
    ["Started", pod.startTime ? <Ago key="started" at={pod.startTime} /> : "–"],
  ];
  const { agentId, namespace, name } = pod;
  return (
    <Stack>
      <Card withBorder padding="md">
        <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="sm" component="dl" m={0}>
          {rows.map(([label, value]) => (
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
      </Card>
      {pod.cpuCores == null && pod.memoryBytes == null ? <NoProvider /> : <Charts pod={pod} />}
      <LogPanel filters={{ agentId, namespace, pod: name }} tail={pathOfTail({ agentId, namespace, pod: name })} />
      <Containers pod={pod} />
    </Stack>
  );
}

function Charts({ pod }: { pod: PodData }) {
  const { span, step, setFixed } = useSpan();
  const of = `agent_id=${quoted(pod.agentId)},namespace=${quoted(pod.namespace)},pod=${quoted(pod.name)}`;
  const range = useRange(`{__name__=~"${CHARTS.map(([, metric]) => metric).join("|")}",${of}}`, span, step);
  const lines = useMemo(
    () =>
      CHARTS.map(([, metric]) =>
        (range.data?.series ?? [])
          .filter((series) => series.metric.__name__ === metric)
          .map(({ values }): Line => ({ label: "Used", values })),
      ),
    [range.data],
  );
  return (
    <Loaded query={range}>
      {({ window }) => (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          {CHARTS.map(([title, , format], index) => (
            <Card key={title} withBorder padding="md">
              <Chart title={title} window={window} lines={lines[index]!} format={format} onZoom={setFixed} />
            </Card>
          ))}
        </SimpleGrid>
      )}
    </Loaded>
  );
}

function Containers({ pod: { agentId, namespace, name, containers } }: { pod: PodData }) {
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        Containers
      </Title>
      <Table.ScrollContainer minWidth={420} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table aria-label="Containers">
          <Table.Thead>
            <Table.Tr>
              {["Name", "State", "Restarts", "Image"].map((label) => (
                <Table.Th key={label} scope="col">
                  {label}
                </Table.Th>
              ))}
              <Table.Th scope="col">Logs</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {containers.map(({ name: container = "", state, ready, restarts, image }) => (
              <Table.Tr key={container}>
                <Table.Td>{container}</Table.Td>
                <Table.Td>
                  <Status>{state || (ready ? "ready" : "not ready")}</Status>
                </Table.Td>
                <Table.Td>{count(restarts ?? 0)}</Table.Td>
                <Table.Td className="title">{image}</Table.Td>
                <Table.Td>
                  <Group gap="xs">
                    <Link to={`/logs?${new URLSearchParams({ agentId, namespace, pod: name, container })}`}>Search</Link>
                    <Link to={pathOfTail({ agentId, namespace, pod: name, container })}>Live tail</Link>
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
