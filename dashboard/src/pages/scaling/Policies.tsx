// The policies: what each watches, whether it acts, and what it found last.

import { Group } from "@mantine/core";
import { Link } from "react-router";
import type { Policy } from "../../api/client";
import { usePolicies } from "../../api/scaling";
import { useMe } from "../../api/queries";
import { DataTable, type Column } from "../../ui/DataTable";
import { Empty, Loaded } from "../../ui/Loaded";
import { matcher, Search } from "../../ui/Search";
import { Mark, Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { changeOf, Mode, pathOf } from "./words";

const COLUMNS: Column<Policy>[] = [
  {
    key: "name",
    label: "Name",
    narrow: true,
    width: "18%",
    value: ({ name }) => name,
    cell: (policy) => (
      <Link to={pathOf(policy)} title={policy.name}>
        {policy.name}
      </Link>
    ),
  },
  {
    key: "mode",
    label: "Mode",
    narrow: true,
    width: "82px",
    value: ({ enabled, dryRun }) => (enabled ? (dryRun ? 1 : 0) : 2),
    cell: (policy) => <Mode policy={policy} />,
  },
  {
    key: "target",
    label: "Workload",
    value: ({ targetRef }) => targetRef,
    cell: ({ targetRef, runtime }) => <span title={`${runtime}: ${targetRef}`}>{targetRef}</span>,
  },
  {
    key: "replicas",
    label: "Replicas",
    narrow: true,
    width: "104px",
    value: ({ currentReplicas }) => currentReplicas,
    cell: ({ currentReplicas, desiredReplicas }) => (
      <span title={`observed ${currentReplicas}, wanted ${desiredReplicas}`}>
        {currentReplicas === desiredReplicas ? currentReplicas : `${currentReplicas} → ${desiredReplicas}`}
      </span>
    ),
  },
  {
    key: "health",
    label: "Health",
    width: "110px",
    value: ({ applyHealth }) => applyHealth,
    cell: ({ dryRun, applyHealth, applyMessage }) =>
      dryRun ? (
        "–"
      ) : (
        <span title={applyMessage}>
          <Status>{applyHealth}</Status>
        </span>
      ),
  },
  {
    key: "reason",
    label: "Found last",
    width: "34%",
    cell: (policy) => (
      <>
        {policy.pendingApproval && (
          <>
            <Link to={pathOf(policy)}>
              <Mark tone="bad">{changeOf(policy.pendingApproval)} waits for approval</Mark>
            </Link>{" "}
          </>
        )}
        <span title={policy.lastReason}>{policy.lastReason || "not evaluated yet"}</span>
      </>
    ),
  },
];

export function Policies() {
  const policies = usePolicies();
  const me = useMe();
  const [params] = useUrl();
  const matches = matcher(params.get("q") ?? "");
  return (
    <>
      <Group gap="xs" mb="xs">
        <Search label="Filter policies" />
      </Group>
      <Loaded
        query={policies}
        empty={(all) =>
          all.length === 0 && (
            <Empty
              title="No policies yet"
              action={me.data?.role !== "viewer" && <Link to="/scaling/new">Make one: it begins as a dry run</Link>}
            >
              A policy keeps the replicas of one workload at what their usage asks for.
            </Empty>
          )
        }
      >
        {(all) => (
          <DataTable
            label="Policies"
            rows={all.filter(({ name, targetRef, lastReason }) => matches(name, targetRef, lastReason))}
            columns={COLUMNS}
            rowKey={({ id }) => id}
          />
        )}
      </Loaded>
    </>
  );
}
