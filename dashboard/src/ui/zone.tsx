// UTC or local time, as the reader has chosen; and a clock that ticks for all "ago"s at once.

import { Tooltip } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useSyncExternalStore } from "react";
import { duration, fullTime, type Zone } from "./format";

const TICK_MS = 5_000;

export function useZone() {
  const [zone, setZone] = useLocalStorage<Zone>({
    key: "zone",
    defaultValue: "local",
    getInitialValueInEffect: false,
  });
  return { zone, toggle: () => setZone(zone === "UTC" ? "local" : "UTC") };
}

let now = Date.now();
const watchers = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function watch(watcher: () => void) {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    if (document.hidden) return;
    now = Date.now();
    watchers.forEach((each) => each());
  }, TICK_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time in milliseconds, renewed every few seconds while the tab is visible. */
export const useNow = () => useSyncExternalStore(watch, () => now);

/** How long ago something was; the full time stands in the tooltip. */
export function Ago({ at }: { at: string | null }) {
  const { zone } = useZone();
  const present = useNow();
  if (!at) return <>never</>;
  const time = Date.parse(at);
  if (Number.isNaN(time)) return <>{at}</>;
  const seconds = (present - time) / 1000;
  return (
    <Tooltip label={fullTime(time, zone)}>
      <time dateTime={at}>{seconds < 5 ? "just now" : `${duration(seconds)} ago`}</time>
    </Tooltip>
  );
}
