// The fields of a policy's form: what each means, in plain words, and how it is sent.

import type { Policy } from "../../api/client";
import type { Fields } from "../../api/scaling";

export type Runtime = Policy["runtime"];
export type PolicyType = NonNullable<Policy["policyType"]>;

export const TYPES: Record<PolicyType, string> = {
  scale_to_zero_on_idle: "sleeps while its GPUs idle",
  rightsize: "recommends replicas by GPU usage",
  spot_shift: "recommends spot nodes",
};

export interface Field {
  name: string;
  label: string;
  description: string;
  /** Sent as a number. */
  number?: boolean;
  /** Only for this runtime, or this type. */
  of?: Runtime | PolicyType;
  /** What the service takes it to be when it is left out. */
  usual?: number;
}

export const GROUPS: [title: string, fields: Field[]][] = [
  [
    "Targets",
    [
      { name: "cpuTargetPercent", label: "CPU, %", description: "Mean of all replicas that is wanted. This or memory is needed.", number: true },
      { name: "memoryTargetPercent", label: "Memory, %", description: "As CPU. With several targets the one that asks for most replicas wins.", number: true },
      { name: "nodePressureTargetPercent", label: "Node pressure, %", description: "CPU or memory, whichever is more, of the nodes or hosts below.", number: true },
    ],
  ],
  [
    "Bounds",
    [
      { name: "minReplicas", label: "Least replicas", description: "Never fewer.", number: true, usual: 1 },
      { name: "maxReplicas", label: "Most replicas", description: "Never more.", number: true, usual: 10 },
      { name: "stepSize", label: "Step", description: "Replicas that one change adds or removes at most.", number: true, usual: 1 },
      { name: "maxReplicasPerHost", label: "Most replicas a host", description: "Empty: as many as there are.", number: true, of: "docker" },
    ],
  ],
  [
    "Pace",
    [
      { name: "cooldownScaleUpSeconds", label: "Cooldown up, s", description: "Between two changes upwards.", number: true, usual: 60 },
      {
        name: "cooldownScaleDownSeconds",
        label: "Cooldown down, s",
        description: "Between two changes downwards; and for that long the highest wish counts.",
        number: true,
        usual: 300,
      },
    ],
  ],
];

export const GPU: Field[] = [
  { name: "idleGpuPercent", label: "Idle below, GPU %", description: "At or below this a replica idles.", number: true, of: "scale_to_zero_on_idle", usual: 5 },
  { name: "idleMinutes", label: "Idle for, min", description: "Then it sleeps: no replica runs.", number: true, of: "scale_to_zero_on_idle", usual: 30 },
  { name: "wakeMetric", label: "Wake selector", description: "A value above 0 ends the sleep. Empty: somebody wakes it.", of: "scale_to_zero_on_idle" },
  { name: "gpuTargetPercent", label: "GPU, %", description: "Mean that is wanted.", number: true, of: "rightsize", usual: 80 },
  { name: "windowMinutes", label: "Window, min", description: "Of which the 95th percentile is taken.", number: true, of: "rightsize", usual: 60 },
  { name: "spotNodeLabel", label: "Label of spot nodes", description: "key or key=value.", of: "spot_shift" },
  { name: "maxSpotPercent", label: "Most on spot nodes, %", description: "Of the replicas.", number: true, of: "spot_shift", usual: 50 },
];

export const OTHERS: Field[] = [
  { name: "lbPoolRef", label: "Load balancer pool", description: "Told to the agent with every change. Not needed." },
];

export const ALL_FIELDS = [...GROUPS.flatMap(([, fields]) => fields), ...GPU, ...OTHERS];

/** What stands in the form at first. */
export interface Draft {
  name: string;
  runtime: Runtime;
  targetRef: string;
  policyType: PolicyType | "";
  agentId: string;
  approvalRequired: boolean;
  /** All others as they are typed. */
  texts: Record<string, string>;
}

export function draftOf(policy?: Policy): Draft {
  const stored = (policy ?? {}) as Record<string, unknown>;
  return {
    name: policy?.name ?? "",
    runtime: policy?.runtime ?? "kubernetes",
    targetRef: policy?.targetRef ?? "",
    policyType: policy?.policyType ?? "",
    agentId: policy?.agentId ?? "",
    approvalRequired: policy?.approvalRequired ?? false,
    texts: Object.fromEntries(
      ALL_FIELDS.map(({ name, usual }) => [name, `${stored[name] ?? (policy ? "" : (usual ?? ""))}`]),
    ),
  };
}

export const belongs = (field: Field, { runtime, policyType }: Pick<Draft, "runtime" | "policyType">) =>
  !field.of || field.of === runtime || field.of === policyType;

/** Whether a field holds what cannot be sent. */
export const isWrong = ({ number }: Field, text: string) => Boolean(number && text.trim() && !Number.isFinite(Number(text)));

/** Return the body of a request; what is empty is null, which unsets it. */
export function bodyOf(draft: Draft): Fields {
  const { texts, policyType, agentId, ...rest } = draft;
  const sent = ALL_FIELDS.filter((field) => belongs(field, draft)).map(({ name, number }) => {
    const text = (texts[name] ?? "").trim();
    return [name, text === "" ? null : number ? Number(text) : text];
  });
  return { ...rest, policyType: policyType || null, agentId: agentId || null, ...Object.fromEntries(sent) };
}
