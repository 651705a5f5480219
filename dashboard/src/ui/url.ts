// What a page shows is in its URL: filters, order, ranges.  A link shows another the same.

import { useCallback } from "react";
import { useSearchParams } from "react-router";
import type { Span } from "../api/queries";

export const HOUR_SECONDS = 3_600;
export const RANGES: [name: string, seconds: number, label: string][] = [
  ["5m", 300, "Last 5 minutes"],
  ["15m", 900, "Last 15 minutes"],
  ["1h", HOUR_SECONDS, "Last hour"],
  ["6h", 6 * HOUR_SECONDS, "Last 6 hours"],
  ["24h", 24 * HOUR_SECONDS, "Last 24 hours"],
  ["7d", 7 * 24 * HOUR_SECONDS, "Last 7 days"],
];
const POINTS = 240; // of a chart: about one every three pixels
const STEPS = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600]; // s; agents push every 15 s

/** The URL's parameters, and a function that changes some; null takes one away. */
export function useUrl() {
  const [params, setParams] = useSearchParams();
  const change = useCallback(
    (changes: Record<string, string | null>, { push = false } = {}) =>
      setParams(
        // From the address and not from the last rendering: two changes at once both count.
        () => {
          const next = new URLSearchParams(window.location.search);
          for (const [name, value] of Object.entries(changes))
            value ? next.set(name, value) : next.delete(name);
          return next;
        },
        { replace: !push },
      ),
    [setParams],
  );
  return [params, change] as const;
}

/** The span that `range`, or `from` and `to`, of the URL say; by default the last hour. */
export function useSpan() {
  const [params, change] = useUrl();
  const from = Number(params.get("from"));
  const to = Number(params.get("to"));
  const named = RANGES.find(([name]) => name === params.get("range"));
  const fixed = from > 0 && to > from;
  const span: Span = fixed ? { from, to } : { lastSeconds: named?.[1] ?? HOUR_SECONDS };
  return {
    span,
    name: fixed ? "fixed" : (named?.[0] ?? "1h"),
    step: stepFor(fixed ? to - from : (named?.[1] ?? HOUR_SECONDS)),
    setName: (name: string) => change({ range: name, from: null, to: null }, { push: true }),
    setFixed: (start: number, end: number) =>
      change(
        { range: null, from: `${Math.round(start)}`, to: `${Math.max(Math.round(end), Math.round(start) + 1)}` },
        { push: true },
      ),
  };
}

/** The step, in seconds, that gives a chart of *seconds* enough points and not too many. */
export function stepFor(seconds: number): number {
  return STEPS.find((step) => seconds / step <= POINTS) ?? STEPS[STEPS.length - 1]!;
}
