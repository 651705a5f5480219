// All containers of all hosts.

import { NativeSelect, Text } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { Link } from "react-router";
import type { Agent, Container } from "../../api/client";
import { useAgents, useContainers } from "../../api/queries";
import { DataTable, type Column } from "../../ui/DataTable";
import { bytes, count, mebibytes, percent } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { matcher, Search } from "../../ui/Search";
import { Meter, Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";

export const PROJECT_LABEL = "com.docker.compose.project";

export const pathOf = ({ agentId, id }: Container) => `/containers/${agentId}/${encodeURIComponent(id)}`;
export const isRunning = ({ state }: Container) => state === "running";

const columnsOf = (agentName: (agentId: string) => string): Column<Container>[] => [
  {
    key: "name",
    label: "Name",
    narrow: true,
    width: "24%",
    value: ({ name }) => name,
    cell: (container) => (
      <>
        <span className="narrow">
          <Status dot>{container.state}</Status>
        </span>
        <Link to={pathOf(container)} title={container.name}>
          {container.name}
        </Link>
      </>
    ),
  },
  {
    key: "state",
    label: "State",
    value: ({ state }) => state,
    cell: ({ state, status }) => (
      <span title={status}>
        <Status>{state}</Status>
      </span>
    ),
  },
  { key: "agent", label: "Agent", value: ({ agentId }) => agentName(agentId), cell: ({ agentId }) => agentName(agentId) },
  {
    key: "image",
    label: "Image",
    width: "20%",
    value: ({ image }) => image,
    cell: ({ image }) => <span title={image}>{image}</span>,
  },
  {
    key: "cpu",
    label: "CPU",
    numeric: true,
    narrow: true,
    value: ({ cpuPercent }) => cpuPercent,
    cell: (container) =>
      isRunning(container) ? <Meter percent={container.cpuPercent} plain>{percent(container.cpuPercent)}</Meter> : "–",
  },
  {
    key: "memory",
    label: "Memory",
    numeric: true,
    narrow: true,
    value: ({ memoryUsageMB }) => memoryUsageMB,
    cell: (container) =>
      isRunning(container) ? (
        <Meter percent={container.memoryPercent}>{mebibytes(container.memoryUsageMB)}</Meter>
      ) : (
        "–"
      ),
  },
  {
    key: "rx",
    label: "Received",
    numeric: true,
    value: ({ netRxBytes }) => netRxBytes,
    cell: ({ netRxBytes }) => bytes(netRxBytes),
  },
  {
    key: "tx",
    label: "Sent",
    numeric: true,
    value: ({ netTxBytes }) => netTxBytes,
    cell: ({ netTxBytes }) => bytes(netTxBytes),
  },
];

const rowKey = ({ agentId, id }: Container) => `${agentId} ${id}`;

/** Return a function that tells an agent's name, the same one while no name changes. */
export function useAgentName(agents: Agent[] | undefined) {
  const told = JSON.stringify(agents?.map(({ id, name }) => [id, name]) ?? []);
  return useMemo(() => {
    const names = new Map<string, string>(JSON.parse(told) as [string, string][]);
    return (agentId: string) => names.get(agentId) ?? agentId;
  }, [told]);
}

export default function Containers() {
  const containers = useContainers();
  const agents = useAgents();
  const [params, change] = useUrl();
  const agentName = useAgentName(agents.data);
  const columns = useMemo(() => columnsOf(agentName), [agentName]);
  const filter = params.get("q") ?? "";
  const state = params.get("state") ?? "";
  const group = params.get("group") ?? "";
  const rows = useMemo(() => {
    const matches = matcher(filter);
    const shown = (each: Container) =>
      (!state || each.state === state) &&
      matches(each.name, each.image, agentName(each.agentId), each.labels[PROJECT_LABEL] ?? "");
    return containers.data?.filter(shown) ?? [];
  }, [containers.data, state, filter, agentName]);
  const states = useMemo(() => [...new Set(containers.data?.map((each) => each.state))].sort(), [containers.data]);
  const byAgent = useCallback((each: Container) => agentName(each.agentId), [agentName]);
  return (
    <Page
      title="Containers"
      tools={
        <>
          <Search label="Filter containers" />
          <NativeSelect
            aria-label="State"
            value={state}
            onChange={(event) => change({ state: event.currentTarget.value })}
            data={[{ value: "", label: "Any state" }, ...new Set(state ? [...states, state] : states)]}
          />
          <NativeSelect
            aria-label="Group"
            value={group}
            onChange={(event) => change({ group: event.currentTarget.value })}
            data={[
              { value: "", label: "Not grouped" },
              { value: "agent", label: "By agent" },
              { value: "project", label: "By Compose project" },
            ]}
          />
        </>
      }
    >
      <Loaded
        query={containers}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No containers" action={<Link to="/agents?connect=1">Connect an agent</Link>}>
              Agents on Docker hosts report their containers; none has reported any.
            </Empty>
          )
        }
      >
        {(all) => (
          <>
            <Text size="sm" c="dimmed" role="status" mb={4}>
              {count(rows.length)} of {count(all.length)}
            </Text>
            {rows.length === 0 ? (
              <Empty title="No container matches">Change the filter or the state.</Empty>
            ) : (
              <DataTable
                label="Containers"
                rows={rows}
                columns={columns}
                rowKey={rowKey}
                groupOf={group === "agent" ? byAgent : group === "project" ? projectOf : undefined}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const projectOf = ({ labels }: Container) => labels[PROJECT_LABEL] ?? "";
