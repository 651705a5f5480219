// One container or pod that is followed: its stream, and how that goes.

import { Button, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError, words } from "../../api/client";
import type { Feed } from "./feed";
import { useTargetNames } from "./Picker";
import { follow, type State } from "./stream";
import type { Target } from "./targets";

interface SourceProps {
  target: Target;
  tone: number;
  path: string;
  feed: Feed;
  /** The plan or the role does not allow it. */
  onRefused: (why: string) => void;
}

/** Follows one target, and says how that goes. */
export function Source({ target, tone, path, feed, onRefused }: SourceProps) {
  const { nameOf, isReady } = useTargetNames();
  const name = nameOf(target);
  const client = useQueryClient();
  const [state, setState] = useState<State>({ kind: "connecting" });
  const [attempts, setAttempts] = useState(0);
  const present = useRef(name);
  present.current = name;
  const place = useMemo(() => ({ ts: "", path }), [path]);
  useEffect(() => {
    if (!isReady) return; // lines carry the name
    return follow(path, place, {
      onState: (next) => {
        setState((before) => (before.kind === "live" && next.kind === "live" ? before : next));
        if (next.kind !== "failed" || !(next.error instanceof ApiError)) return;
        if (next.error.status === 403) onRefused(words(next.error));
        if (next.error.status === 401) void client.invalidateQueries({ queryKey: ["me"] });
      },
      onLine: ({ line, ts, stream }) =>
        feed.add({ tone, source: present.current, time: ts, stream: stream ?? "stdout", text: line }),
      onSkipped: (skipped) =>
        feed.add({ tone, source: present.current, time: "", stream: "stdout", text: "", skipped }),
    });
  }, [isReady, path, place, tone, feed, client, onRefused, attempts]);
  const over = state.kind === "ended" || state.kind === "failed";
  return (
    <li className="followed">
      <span className={`source tone-${tone}`} title={name}>
        {name}
      </span>
      <Text span size="xs" c={state.kind === "failed" ? "red" : "dimmed"} role="status">
        {saidOf(state)}
      </Text>
      {over && (
        <Button size="compact-xs" variant="default" onClick={() => setAttempts(attempts + 1)}>
          Again
        </Button>
      )}
    </li>
  );
}

function saidOf(state: State): string {
  switch (state.kind) {
    case "connecting":
      return "connecting …";
    case "waiting":
      return state.message;
    case "live":
      return "live";
    case "lost":
      return `connection lost, again in ${state.seconds} s`;
    case "ended":
      return `ended: ${state.reason}`;
    case "failed":
      // What the service says of its limits is clearer than what is said of any.
      return state.error instanceof ApiError && state.error.status === 429 ? state.error.message : words(state.error);
  }
}
