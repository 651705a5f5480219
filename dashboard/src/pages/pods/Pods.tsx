// All pods of all clusters.

import { NativeSelect, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import type { Pod } from "../../api/client";
import { usePods } from "../../api/queries";
import { DataTable, type Column } from "../../ui/DataTable";
import { bytes, count, percent, rounded } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { NoProvider } from "../../ui/NoProvider";
import { Page } from "../../ui/Page";
import { matcher, Search } from "../../ui/Search";
import { Meter, Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { Ago } from "../../ui/zone";
import { pathOf } from "./paths";

const BASE: Column<Pod>[] = [
  {
    key: "name",
    label: "Name",
    narrow: true,
    width: "24%",
    value: ({ name }) => name,
    cell: (pod) => (
      <>
        <span className="narrow">
          <Status dot>{pod.phase}</Status>
        </span>
        <Link to={pathOf(pod)} title={pod.name}>
          {pod.name}
        </Link>
      </>
    ),
  },
  { key: "namespace", label: "Namespace", value: ({ namespace }) => namespace, cell: ({ namespace }) => namespace },
  {
    key: "phase",
    label: "Phase",
    value: ({ phase }) => phase,
    cell: ({ phase }) => <Status>{phase}</Status>,
  },
  {
    key: "ready",
    label: "Ready",
    width: "70px",
    value: ({ ready }) => Number(ready),
    cell: ({ ready, containers }) =>
      containers.length ? `${containers.filter((each) => each.ready).length} / ${containers.length}` : ready ? "yes" : "no",
  },
  {
    key: "restarts",
    label: "Restarts",
    numeric: true,
    width: "88px",
    value: ({ restarts }) => restarts,
    cell: ({ restarts }) => count(restarts),
  },
  { key: "node", label: "Node", value: ({ nodeName }) => nodeName, cell: ({ nodeName }) => nodeName || "–" },
  {
    key: "started",
    label: "Started",
    value: ({ startTime }) => startTime,
    cell: ({ startTime }) => (startTime ? <Ago at={startTime} /> : "–"),
  },
];

const USAGE: Column<Pod>[] = [
  {
    key: "cpu",
    label: "CPU, cores",
    numeric: true,
    narrow: true,
    value: ({ cpuCores }) => cpuCores ?? -1,
    cell: ({ cpuCores, cpuPercent }) =>
      cpuCores == null ? (
        "–"
      ) : cpuPercent == null ? (
        rounded(cpuCores, 3)
      ) : (
        <Meter percent={cpuPercent}>{rounded(cpuCores, 3)}</Meter>
      ),
  },
  {
    key: "memory",
    label: "Memory",
    numeric: true,
    narrow: true,
    value: ({ memoryBytes }) => memoryBytes ?? -1,
    cell: ({ memoryBytes, memoryPercent }) =>
      memoryBytes == null ? (
        "–"
      ) : memoryPercent == null ? (
        bytes(memoryBytes)
      ) : (
        <span title={percent(memoryPercent)}>
          <Meter percent={memoryPercent}>{bytes(memoryBytes)}</Meter>
        </span>
      ),
  },
];

const rowKey = ({ agentId, namespace, name }: Pod) => `${agentId} ${namespace} ${name}`;
const GROUPS: Record<string, (pod: Pod) => string> = {
  namespace: ({ namespace }) => namespace,
  workload: ({ namespace, workload }) => (workload ? `${namespace}/${workload}` : ""),
  node: ({ nodeName }) => nodeName,
};

export default function Pods() {
  const pods = usePods();
  const [params, change] = useUrl();
  const filter = params.get("q") ?? "";
  const namespace = params.get("namespace") ?? "";
  const group = params.get("group") ?? "";
  const rows = useMemo(() => {
    const matches = matcher(filter);
    const shown = (each: Pod) =>
      (!namespace || each.namespace === namespace) &&
      matches(each.name, each.namespace, each.nodeName, each.phase, each.workload);
    return pods.data?.filter(shown) ?? [];
  }, [pods.data, namespace, filter]);
  const namespaces = useMemo(() => [...new Set(pods.data?.map((each) => each.namespace))].sort(), [pods.data]);
  const measured = pods.data?.some(({ cpuCores, memoryBytes }) => cpuCores != null || memoryBytes != null) ?? true;
  const columns = measured ? COLUMNS : BASE;
  return (
    <Page
      title="Pods"
      tools={
        <>
          <Search label="Filter pods" />
          <NativeSelect
            aria-label="Namespace"
            value={namespace}
            onChange={(event) => change({ namespace: event.currentTarget.value })}
            data={[
              { value: "", label: "All namespaces" },
              ...new Set(namespace ? [...namespaces, namespace] : namespaces),
            ]}
          />
          <NativeSelect
            aria-label="Group"
            value={group}
            onChange={(event) => change({ group: event.currentTarget.value })}
            data={[
              { value: "", label: "Not grouped" },
              { value: "namespace", label: "By namespace" },
              { value: "workload", label: "By workload" },
              { value: "node", label: "By node" },
            ]}
          />
        </>
      }
    >
      <Loaded
        query={pods}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No pods" action={<Link to="/agents?connect=1">Connect an agent</Link>}>
              Agents in Kubernetes clusters report their pods; none has reported any.
            </Empty>
          )
        }
      >
        {(all) => (
          <>
            {!measured && <NoProvider />}
            <Text size="sm" c="dimmed" role="status" mb={4}>
              {count(rows.length)} of {count(all.length)}
            </Text>
            {rows.length === 0 ? (
              <Empty title="No pod matches">Change the filter or the namespace.</Empty>
            ) : (
              <DataTable label="Pods" rows={rows} columns={columns} rowKey={rowKey} groupOf={GROUPS[group]} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const COLUMNS = [...BASE, ...USAGE];
