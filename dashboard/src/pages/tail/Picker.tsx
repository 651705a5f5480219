// Which containers and pods are followed.

import { MultiSelect } from "@mantine/core";
import { useMemo } from "react";
import { useAgents, useContainers, usePods } from "../../api/queries";
import { useAgentName } from "../containers/Containers";
import { MOST_TARGETS, targetsOf, textOf, type Target } from "./targets";

const PROPOSED = 60; // names in the list; more are found by writing
const LIST_HEIGHT = 320; // CSS pixels

/** Names of targets: those of the inventory, with the agent's where several have the same; else their ids. */
export function useTargetNames() {
  const agents = useAgents();
  const containers = useContainers();
  const pods = usePods();
  const agentName = useAgentName(agents.data);
  const isReady = agents.isFetched && containers.isFetched && pods.isFetched;
  return useMemo(() => {
    const found: [target: Target, name: string][] = (containers.data ?? []).map(({ agentId, id, name }) => [
      { agentId, containerId: id },
      name,
    ]);
    for (const { agentId, namespace, name: pod, containers: parts } of pods.data ?? []) {
      const several = parts.length > 1 ? parts.map(({ name = "" }) => ({ container: name })) : [{}];
      for (const one of several) {
        const target = { agentId, namespace, pod, ...one };
        found.push([target, spelled(target)]);
      }
    }
    const counts = new Map<string, number>();
    for (const [, name] of found) counts.set(name, (counts.get(name) ?? 0) + 1);
    const told = (target: Target, name: string) =>
      counts.get(name)! > 1 ? `${name} (${agentName(target.agentId)})` : name;
    const names = new Map(found.map(([target, name]) => [textOf(target), told(target, name)]));
    const nameOf = (target: Target) => names.get(textOf(target)) ?? spelled(target);
    return { names, nameOf, isReady };
  }, [containers.data, pods.data, agentName, isReady]);
}

const spelled = (target: Target) =>
  "containerId" in target
    ? target.containerId.slice(0, 12)
    : [target.namespace, target.pod, ...(target.container ? [target.container] : [])].join("/");

interface Props {
  targets: Target[];
  onChange: (targets: Target[]) => void;
}

export function Picker({ targets, onChange }: Props) {
  const { names, nameOf } = useTargetNames();
  const options = useMemo(() => {
    const all = new Map(names);
    for (const target of targets) if (!all.has(textOf(target))) all.set(textOf(target), nameOf(target));
    const made = [...all].map(([value, label]) => ({ value, label }));
    const of = (kind: string) =>
      made.filter(({ value }) => value.startsWith(kind)).sort((a, b) => (a.label < b.label ? -1 : 1));
    return [
      { group: "Containers", items: of("c/") },
      { group: "Pods", items: of("p/") },
    ];
  }, [names, nameOf, targets]);
  return (
    <MultiSelect
      className="grow"
      label="Containers and pods"
      placeholder={targets.length ? "" : "Choose by name"}
      description={targets.length === MOST_TARGETS ? `${MOST_TARGETS} at once are the most` : undefined}
      data={options}
      limit={PROPOSED}
      maxValues={MOST_TARGETS}
      searchable
      hidePickedOptions
      nothingFoundMessage="Nothing has that name."
      value={targets.map(textOf)}
      onChange={(texts) => onChange(targetsOf(texts.join(",")))}
      withScrollArea={false}
      styles={{ options: { maxHeight: LIST_HEIGHT, overflowY: "auto" } }}
      clearButtonProps={{ "aria-label": "Follow none" }}
    />
  );
}
