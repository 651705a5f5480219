// The agents: who pushes, since when, and how much.  A small page to copy for a new one.

import { Button, Modal, Text } from "@mantine/core";
import { useState } from "react";
import { answer, api, type Agent } from "../../api/client";
import { useAgents, useChange, useMe } from "../../api/queries";
import { Confirm } from "../../ui/Confirm";
import { DataTable, type Column } from "../../ui/DataTable";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Onboarding } from "../../ui/Onboarding";
import { Page } from "../../ui/Page";
import { matcher, Search } from "../../ui/Search";
import { Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { Ago } from "../../ui/zone";

const COLUMNS: Column<Agent>[] = [
  { key: "name", label: "Name", narrow: true, value: (agent) => agent.name, cell: (agent) => agent.name },
  {
    key: "status",
    label: "Status",
    narrow: true,
    value: (agent) => agent.status,
    cell: (agent) => <Status>{agent.status}</Status>,
  },
  { key: "type", label: "Type", value: (agent) => agent.type, cell: (agent) => agent.type },
  { key: "version", label: "Version", value: (agent) => agent.version, cell: (agent) => agent.version },
  {
    key: "containers",
    label: "Containers",
    numeric: true,
    value: (agent) => agent.containerCount,
    cell: (agent) => count(agent.containerCount),
  },
  {
    key: "pods",
    label: "Pods",
    numeric: true,
    value: (agent) => agent.podCount,
    cell: (agent) => count(agent.podCount),
  },
  {
    key: "nodes",
    label: "Nodes",
    numeric: true,
    value: (agent) => agent.nodeCount,
    cell: (agent) => count(agent.nodeCount),
  },
  {
    key: "seen",
    label: "Last push",
    value: (agent) => agent.lastSeen ?? "",
    cell: (agent) => <Ago at={agent.lastSeen} />,
  },
];

export default function Agents() {
  const agents = useAgents();
  const me = useMe();
  const [params, change] = useUrl();
  const [doomed, doom] = useState<Agent | null>(null);
  const remove = useChange(
    (agentId: string) => answer(api.DELETE("/api/v1/agents/{agentId}", { params: { path: { agentId } } })),
    "agents",
    "containers",
    "pods",
    "nodes",
  );
  const matches = matcher(params.get("q") ?? "");
  const mayDelete = me.data?.role !== "viewer";
  const columns: Column<Agent>[] = mayDelete
    ? [
        ...COLUMNS,
        {
          key: "delete",
          label: "",
          narrow: true,
          numeric: true,
          width: "84px",
          cell: (agent) => (
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => doom(agent)}
              aria-label={`Delete ${agent.name}`}
            >
              Delete
            </Button>
          ),
        },
      ]
    : COLUMNS;
  const connect = <Button onClick={() => change({ connect: "1" })}>Connect an agent</Button>;
  return (
    <Page
      title="Agents"
      tools={
        <>
          <Search label="Filter agents" />
          {connect}
        </>
      }
    >
      <Loaded
        query={agents}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No agent yet" action={connect}>
              An agent runs beside a Docker host or in a cluster and pushes what it sees.
            </Empty>
          )
        }
      >
        {(all) => (
          <DataTable
            label="Agents"
            rows={all.filter((agent) => matches(agent.name, agent.type, agent.status, agent.pool))}
            columns={columns}
            rowKey={(agent) => agent.id}
          />
        )}
      </Loaded>
      <Modal
        opened={params.has("connect")}
        onClose={() => change({ connect: null })}
        title="Connect an agent"
        size="lg"
      >
        <Onboarding />
      </Modal>
      {doomed && (
        <Confirm
          title={`Delete the agent ${doomed.name}?`}
          verb="Delete for ever"
          typed={doomed.name}
          action={() => remove.mutateAsync(doomed.id)}
          onClose={() => doom(null)}
        >
          <Text>
            Its containers, pods and nodes leave the lists, its token stops working, and all its stored metrics are
            removed. This cannot be undone.
          </Text>
        </Confirm>
      )}
    </Page>
  );
}
