// Policies and decisions in words.

import { useMemo } from "react";
import type { Decision, Policy } from "../../api/client";
import { usePolicies } from "../../api/scaling";
import { rounded } from "../../ui/format";
import { Mark } from "../../ui/Status";

export const pathOf = ({ id }: Pick<Policy, "id">) => `/scaling/${id}`;

export const ACTIONS: Record<string, string> = {
  dry_run: "dry run",
  apply: "applied",
  rollback: "rolled back",
  apply_failed: "failed",
};
export const METRICS: Record<string, string> = {
  cpu: "CPU",
  memory: "Memory",
  node_pressure: "Node pressure",
  gpu: "GPU",
  manual: "by hand, or a bound",
};
export const LIMITERS: Record<string, string> = {
  missing_metrics: "missing metrics",
  stabilization: "stabilization",
  step_size: "step size",
  cooldown: "cooldown",
  min_replicas: "least replicas",
  max_replicas: "most replicas",
  max_replicas_per_host: "most replicas a host",
  offline_hosts: "offline hosts",
};

/** Whether it acts: paused, only saying what it would do, or live. */
export function Mode({ policy }: { policy: Policy }) {
  if (!policy.enabled) return <Mark>paused</Mark>;
  return policy.dryRun ? <Mark tone="other">dry run</Mark> : <Mark tone="good">live</Mark>;
}

export const Action = ({ children }: { children: string }) => (
  <Mark tone={children === "apply_failed" ? "bad" : children === "dry_run" ? "other" : "plain"}>
    {ACTIONS[children] ?? children}
  </Mark>
);

/** Return a function that tells a policy's name; that of one that was deleted is its id. */
export function usePolicyName() {
  const policies = usePolicies();
  return useMemo(() => {
    const names = new Map((policies.data ?? []).map(({ id, name }) => [id, name]));
    return (id: string) => names.get(id) ?? id;
  }, [policies.data]);
}

export const changeOf = ({ fromReplicas, toReplicas }: Pick<Decision, "fromReplicas" | "toReplicas">) =>
  `${fromReplicas} → ${toReplicas}`;

/** What asked for a change: `CPU 93 % of 60 %`. */
export const triggerOf = ({ triggerMetric, triggerValue, threshold }: Pick<Decision, "triggerMetric" | "triggerValue" | "threshold">) =>
  triggerMetric === "manual"
    ? METRICS.manual!
    : `${METRICS[triggerMetric] ?? triggerMetric} ${rounded(triggerValue)} % of ${rounded(threshold)} %`;
