// All nodes of all clusters.

import { Link } from "react-router";
import type { Node } from "../../api/client";
import { useNodes } from "../../api/queries";
import { DataTable, type Column } from "../../ui/DataTable";
import { count, rounded } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { NoProvider } from "../../ui/NoProvider";
import { Page } from "../../ui/Page";
import { matcher, Search } from "../../ui/Search";
import { Meter, Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";

const QUANTITY = /^([0-9.]+)(m|k|Ki|M|Mi|G|Gi|T|Ti)?$/;
const SCALES: Record<string, number> = {
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** Return a Kubernetes quantity such as `500m` or `16Gi` as a number; null for what is none. */
export function quantity(text: string): number | null {
  const match = QUANTITY.exec(text);
  return match ? Number(match[1]) * (match[2] ? SCALES[match[2]]! : 1) : null;
}

const GIBIBYTE = 2 ** 30;

function used(value: number | null | undefined, of: number | null, format: (value: number) => string) {
  if (value == null) return "–";
  if (!of) return format(value);
  return <Meter percent={(value / of) * 100}>{`${format(value)} / ${format(of)}`}</Meter>;
}

const BASE: Column<Node>[] = [
  { key: "name", label: "Name", narrow: true, value: ({ name }) => name, cell: ({ name }) => <span title={name}>{name}</span> },
  {
    key: "status",
    label: "Status",
    narrow: true,
    value: ({ status }) => status,
    cell: ({ status }) => <Status>{status}</Status>,
  },
  { key: "roles", label: "Roles", value: ({ roles }) => roles.join(), cell: ({ roles }) => roles.join(", ") || "–" },
  {
    key: "version",
    label: "Kubelet",
    value: ({ kubeletVersion }) => kubeletVersion,
    cell: ({ kubeletVersion, osImage, architecture }) => (
      <span title={`${osImage} ${architecture}`}>{kubeletVersion || "–"}</span>
    ),
  },
  {
    key: "pods",
    label: "Pods",
    numeric: true,
    value: ({ usage }) => usage.podsUsed ?? -1,
    cell: ({ usage, allocatable }) => used(usage.podsUsed, quantity(allocatable.pods), count),
  },
];

const USAGE: Column<Node>[] = [
  {
    key: "cpu",
    label: "CPU, cores",
    numeric: true,
    narrow: true,
    value: ({ usage }) => usage.cpuCores ?? -1,
    cell: ({ usage, allocatable }) => used(usage.cpuCores, quantity(allocatable.cpu), rounded),
  },
  {
    key: "memory",
    label: "Memory, GiB",
    numeric: true,
    narrow: true,
    value: ({ usage }) => usage.memoryGiB ?? -1,
    cell: ({ usage, allocatable }) => {
      const bytes = quantity(allocatable.memory);
      return used(usage.memoryGiB, bytes && bytes / GIBIBYTE, rounded);
    },
  },
];
const COLUMNS = [...BASE, ...USAGE];

export default function Nodes() {
  const nodes = useNodes();
  const [params] = useUrl();
  const matches = matcher(params.get("q") ?? "");
  const measured = nodes.data?.some(({ usage }) => usage.cpuCores != null || usage.memoryGiB != null) ?? true;
  return (
    <Page title="Nodes" tools={<Search label="Filter nodes" />}>
      <Loaded
        query={nodes}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No nodes" action={<Link to="/agents?connect=1">Connect an agent</Link>}>
              Agents in Kubernetes clusters report their nodes; none has reported any.
            </Empty>
          )
        }
      >
        {(all) => (
          <>
            {!measured && <NoProvider />}
            <DataTable
              label="Nodes"
              rows={all.filter(({ name, status, roles }) => matches(name, status, roles.join(" ")))}
              columns={measured ? COLUMNS : BASE}
              rowKey={({ agentId, name }) => `${agentId} ${name}`}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}
