// One container: what it is, what it uses over time, its ports and labels.

import { Anchor, Card, Code, Group, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo } from "react";
import { Link, useParams } from "react-router";
import type { Container as ContainerData } from "../../api/client";
import { useAgents, useContainers, useRange } from "../../api/queries";
import { Chart, type Line } from "../../ui/Chart";
import { bytes, bytesPerSecond, mebibytes, percent, quoted } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { Status } from "../../ui/Status";
import { useSpan } from "../../ui/url";
import { Ago } from "../../ui/zone";
import { LogPanel } from "../logs/LogPanel";
import { pathOfTail } from "../tail/targets";
import { Alerts } from "./Alerts";
import { useAgentName } from "./Containers";

// Each chart: its title, how its numbers are written, and its metrics with their names in the legend.
const CHARTS: [title: string, format: (value: number) => string, metrics: Record<string, string>][] = [
  ["CPU (100 % = one core)", percent, { container_cpu_usage_percent: "CPU" }],
  [
    "Memory",
    bytes,
    { container_memory_working_set_bytes: "Used", container_spec_memory_limit_bytes: "Limit" },
  ],
  [
    "Network",
    bytesPerSecond,
    {
      container_network_receive_bytes_per_second: "Received",
      container_network_transmit_bytes_per_second: "Sent",
    },
  ],
  [
    "Disk",
    bytesPerSecond,
    { container_fs_reads_bytes_per_second: "Read", container_fs_writes_bytes_per_second: "Written" },
  ],
];
const METRICS = CHARTS.flatMap(([, , metrics]) => Object.keys(metrics)).join("|");

export default function Container() {
  const { agentId = "", id = "" } = useParams();
  const containers = useContainers();
  const container = containers.data?.find((each) => each.agentId === agentId && each.id === id);
  return (
    <Page
      title={container?.name ?? "Container"}
      before={
        <Anchor component={Link} to="/containers" size="sm">
          ← All containers
        </Anchor>
      }
      tools={<RangePicker />}
    >
      <Loaded
        query={containers}
        empty={() =>
          !container && (
            <Empty title="This container is not there any more" action={<Link to="/containers">All containers</Link>}>
              Its agent does not report it now. Its stored metrics can still be queried under Explore.
            </Empty>
          )
        }
      >
        {() => container && <Detail container={container} />}
      </Loaded>
    </Page>
  );
}

function Detail({ container }: { container: ContainerData }) {
  const agents = useAgents();
  const agentName = useAgentName(agents.data);
  const rows: [string, React.ReactNode][] = [
    ["State", <Status key="state">{container.state}</Status>],
    ["Status", container.status || "–"],
    ["Agent", agentName(container.agentId)],
    ["Image", container.image || "–"],
    ["Created", container.created ? <Ago key="created" at={container.created} /> : "–"],
    ["Memory limit", container.memoryLimitMB > 0 ? mebibytes(container.memoryLimitMB) : "none"],
    ["Id", <Code key="id">{container.shortId}</Code>],
  ];
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
      <Alerts container={container} agentName={agentName(container.agentId)} />
      <Charts container={container} />
      <LogPanel
        filters={{ agentId: container.agentId, containerId: container.id }}
        tail={pathOfTail({ agentId: container.agentId, containerId: container.id })}
      />
      <Ports ports={container.ports} />
      <Labels labels={container.labels} />
    </Stack>
  );
}

function Charts({ container }: { container: ContainerData }) {
  const { span, step, setFixed } = useSpan();
  const of = `agent_id=${quoted(container.agentId)},container_id=${quoted(container.id)}`;
  const range = useRange(`{__name__=~"${METRICS}",${of}}`, span, step);
  const lines = useMemo(
    () =>
      CHARTS.map(([, , metrics]) =>
        Object.entries(metrics).flatMap(([name, label]): Line[] =>
          (range.data?.series ?? [])
            .filter(({ metric, values }) => metric.__name__ === name && hasLimit(name, values))
            .map(({ values }) => ({ label, values })),
        ),
      ),
    [range.data],
  );
  return (
    <Loaded query={range}>
      {({ window }) => (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          {CHARTS.map(([title, format], index) => (
            <Card key={title} withBorder padding="md">
              <Chart title={title} window={window} lines={lines[index]!} format={format} onZoom={setFixed} />
            </Card>
          ))}
        </SimpleGrid>
      )}
    </Loaded>
  );
}

/** A limit of zero is none. */
const hasLimit = (name: string, values: Line["values"]) =>
  name !== "container_spec_memory_limit_bytes" || values.some(([, value]) => value! > 0);

/** A port as the Docker engine tells it. */
interface Port {
  IP?: string;
  PrivatePort?: number;
  PublicPort?: number;
  Type?: string;
}

function Ports({ ports }: { ports: unknown[] }) {
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        Ports
      </Title>
      {ports.length === 0 ? (
        <Text c="dimmed" size="sm">
          It publishes no port.
        </Text>
      ) : (
        <Table aria-label="Ports">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">In the container</Table.Th>
              <Table.Th scope="col">On the host</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {ports.map((port, index) => {
              const { IP, PrivatePort, PublicPort, Type }: Port =
                typeof port === "object" && port !== null ? port : {};
              return (
                <Table.Tr key={index}>
                  <Table.Td>{PrivatePort ? `${PrivatePort}/${Type ?? "tcp"}` : JSON.stringify(port)}</Table.Td>
                  <Table.Td>{PublicPort ? `${IP?.includes(":") ? `[${IP}]` : (IP ?? "")}:${PublicPort}` : "not published"}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      )}
    </Card>
  );
}

function Labels({ labels }: { labels: Record<string, string> }) {
  const pairs = Object.entries(labels).sort(([a], [b]) => a.localeCompare(b));
  if (pairs.length === 0) return null;
  return (
    <Card withBorder padding="md">
      <Title order={2} size="h5" mb="xs">
        Labels
      </Title>
      <Group gap={6}>
        {pairs.map(([name, value]) => (
          <Code key={name} className="title">
            {name}={value}
          </Code>
        ))}
      </Group>
    </Card>
  );
}
