// Series in words: their labels as text, their values by the unit that stands in their name.

import type { Line } from "./Chart";
import { bytes, bytesPerSecond, percent, rounded } from "./format";

interface Series {
  metric: Record<string, string>;
  values: number[][];
}

/** Return a series' labels as a selector writes them. */
export function textOf({ __name__ = "", ...labels }: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return pairs.length ? `${__name__}{${pairs.join(",")}}` : __name__;
}

/** Return how the values of a metric are written: the unit stands in its name. */
export function formatOf(name: string): (value: number) => string {
  if (name.endsWith("_bytes_per_second")) return bytesPerSecond;
  if (/_bytes(_total)?$/.test(name)) return bytes;
  if (name.endsWith("_percent")) return percent;
  return (value) => rounded(value, 3);
}

/** Return the lines, each named by the labels that tell it from the others; ids only if nothing else does. */
export function linesOf(series: Series[]): Line[] {
  const names = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))];
  const differing = names.filter((name) => series.some(({ metric }) => metric[name] !== series[0]!.metric[name]));
  const readable = differing.filter((name) => !name.endsWith("_id"));
  const named = (chosen: string[]) =>
    series.map(({ metric }) =>
      textOf(Object.fromEntries(chosen.filter((name) => name in metric).map((name) => [name, metric[name]!]))),
    );
  let labels = named(readable);
  for (let count = 1; count < readable.length; count += 1) {
    const fewer = named(readable.slice(0, count));
    if (new Set(fewer).size === series.length) {
      labels = fewer;
      break;
    }
  }
  if (new Set(labels).size < series.length) labels = named(differing);
  return series.map(({ metric, values }, index) => ({ label: labels[index] || textOf(metric), values }));
}
