// What lines are searched for: words, and where they come from.  A search begins with Enter, not with every key.

import { ActionIcon, Button, CloseButton, Group, List, NativeSelect, Pill, Popover, Text, TextInput } from "@mantine/core";
import { useEffect, useId, useMemo, useState } from "react";
import { useAgents, useContainers, usePods } from "../../api/queries";
import { useAgentName } from "../containers/Containers";
import type { Filters } from "./filters";

type Change = (changes: Record<string, string | null>, how?: { push?: boolean }) => void;

interface Props {
  filters: Filters;
  change: Change;
  /** What the service says against `q`. */
  wrong: string | null;
  busy: boolean;
  onSearch: () => void;
}

const NAMES_SHOWN = 300; // proposals of a field; more only make its list slow

export function FilterBar({ filters, change, wrong, busy, onSearch }: Props) {
  const { q = "", source = "", stream = "", agentId = "", containerId = "" } = filters;
  const agents = useAgents();
  const containers = useContainers();
  const pods = usePods();
  const agentName = useAgentName(agents.data);
  const names = useMemo(
    () => ({
      containerName: containers.data?.map(({ name }) => name) ?? [],
      namespace: pods.data?.map(({ namespace }) => namespace) ?? [],
      pod: pods.data?.map(({ name }) => name) ?? [],
      container: pods.data?.flatMap((pod) => pod.containers.map(({ name }) => name ?? "")) ?? [],
    }),
    [containers.data, pods.data],
  );
  const set = (name: string, value: string) => change({ [name]: value || null }, { push: true });
  const known = agents.data?.map(({ id, name }) => ({ value: id, label: name })) ?? [];
  const ofPods = source !== "docker";
  return (
    <>
      <Words
        key={q}
        given={q}
        wrong={wrong}
        busy={busy}
        onSearch={(text) => (text === q ? onSearch() : change({ q: text || null }, { push: true }))}
      />
      <div className="filters">
        <NativeSelect
          label="Source"
          size="xs"
          value={source}
          onChange={(event) => {
            const next = event.currentTarget.value;
            const none = { containerName: null, containerId: null };
            const others = { namespace: null, pod: null, container: null };
            change(
              { source: next || null, ...(next === "kubernetes" && none), ...(next === "docker" && others) },
              { push: true },
            );
          }}
          data={[
            { value: "", label: "Any" },
            { value: "docker", label: "Docker" },
            { value: "kubernetes", label: "Kubernetes" },
          ]}
        />
        <NativeSelect
          label="Agent"
          size="xs"
          value={agentId}
          onChange={(event) => set("agentId", event.currentTarget.value)}
          data={[
            { value: "", label: "Any" },
            ...known,
            ...(agentId && !known.some(({ value }) => value === agentId)
              ? [{ value: agentId, label: agentName(agentId) }]
              : []),
          ]}
        />
        <NativeSelect
          label="Stream"
          size="xs"
          value={stream}
          onChange={(event) => set("stream", event.currentTarget.value)}
          data={[{ value: "", label: "Both" }, "stdout", "stderr"]}
        />
        {source !== "kubernetes" && (
          <Field label="Docker container" name="containerName" filters={filters} names={names.containerName} onSet={set} />
        )}
        {ofPods && (
          <>
            <Field label="Namespace" name="namespace" filters={filters} names={names.namespace} onSet={set} />
            <Field label="Pod" name="pod" filters={filters} names={names.pod} onSet={set} />
            {(filters.pod || filters.container || source === "kubernetes") && (
              <Field label="Container in it" name="container" filters={filters} names={names.container} onSet={set} />
            )}
          </>
        )}
        {containerId && (
          <Pill
            size="lg"
            withRemoveButton
            removeButtonProps={{ "aria-label": "Any container", tabIndex: 0, "aria-hidden": false }}
            onRemove={() => set("containerId", "")}
          >
            {containers.data?.find(({ id }) => id === containerId)?.name ?? containerId.slice(0, 12)}
          </Pill>
        )}
      </div>
    </>
  );
}

interface WordsProps {
  given: string;
  wrong: string | null;
  busy: boolean;
  onSearch: (text: string) => void;
}

function Words({ given, wrong, busy, onSearch }: WordsProps) {
  const [text, setText] = useState(given);
  return (
    <form
      role="search"
      className="words"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text.trim());
      }}
    >
      <TextInput
        data-search
        type="search"
        aria-label="Words"
        placeholder={'error "connection reset" -health  ( / )'}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={wrong}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        rightSectionWidth={text ? 64 : 34}
        rightSection={
          <Group gap={2} wrap="nowrap">
            {text && (
              <CloseButton
                size="sm"
                aria-label="Clear"
                onClick={() => {
                  setText("");
                  onSearch("");
                }}
              />
            )}
            <Help />
          </Group>
        }
        className="grow"
      />
      <Button type="submit" loading={busy}>
        Search
      </Button>
    </form>
  );
}

function Help() {
  return (
    <Popover width={340} position="bottom-end" withArrow trapFocus>
      <Popover.Target>
        <ActionIcon size="sm" variant="default" aria-label="How to search">
          ?
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown aria-label="How to search">
        <List size="sm" spacing={4}>
          <List.Item>
            <kbd>error timeout</kbd>: both words occur, anywhere in the message, also inside of other words
          </List.Item>
          <List.Item>
            <kbd>"connection reset"</kbd>: exactly that
          </List.Item>
          <List.Item>
            <kbd>-health</kbd>: this does not occur
          </List.Item>
        </List>
        <Text size="sm" mt="xs">
          Upper and lower case are alike. Every other character is itself: there are no wildcards.
        </Text>
      </Popover.Dropdown>
    </Popover>
  );
}

interface FieldProps {
  label: string;
  name: "containerName" | "namespace" | "pod" | "container";
  filters: Filters;
  names: string[];
  onSet: (name: string, value: string) => void;
}

/** A name, written or chosen from those that are there now: logs also know those that have gone. */
function Field({ label, name, filters, names, onSet }: FieldProps) {
  const given = filters[name] ?? "";
  const [text, setText] = useState(given);
  const list = useId();
  useEffect(() => setText(given), [given]);
  const proposals = useMemo(() => {
    const all = [...new Set(names)];
    const begun = all.filter((each) => each.includes(text));
    return (begun.length ? begun : all).sort().slice(0, NAMES_SHOWN);
  }, [names, text]);
  return (
    <>
      <TextInput
        label={label}
        size="xs"
        className="name"
        placeholder="Any"
        list={list}
        value={text}
        autoComplete="off"
        onChange={(event) => {
          const { value } = event.currentTarget;
          setText(value);
          // Chosen from the list, and not written: there is no key that ends it.
          const { inputType } = event.nativeEvent as InputEvent;
          if (names.includes(value) && (inputType === undefined || inputType === "insertReplacementText"))
            onSet(name, value);
        }}
        onBlur={() => text.trim() !== given && onSet(name, text.trim())}
        onKeyDown={(event) => event.key === "Enter" && text.trim() !== given && onSet(name, text.trim())}
        rightSection={
          text && <CloseButton size="xs" aria-label={`Any ${label.toLowerCase()}`} onClick={() => onSet(name, "")} />
        }
      />
      <datalist id={list}>
        {proposals.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </>
  );
}
