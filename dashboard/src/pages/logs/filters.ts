// Which lines are meant: the filters in the URL are those of the API, by the same names.

import { useMemo } from "react";
import type { LogLine } from "../../api/client";
import type { Asked } from "../../api/logs";
import { useUrl } from "../../ui/url";

export const FILTERS = [
  "q",
  "source",
  "stream",
  "agentId",
  "containerId",
  "containerName",
  "namespace",
  "pod",
  "container",
] as const;
export type Filters = Partial<Record<(typeof FILTERS)[number], string>>;

/** The filters that the URL has, the same object while they are the same. */
export function useFilters() {
  const [params, change] = useUrl();
  const told = FILTERS.flatMap((name) => (params.get(name) ? [[name, params.get(name)!]] : []));
  const text = JSON.stringify(told);
  const filters = useMemo(() => Object.fromEntries(JSON.parse(text) as [string, string][]) as Filters, [text]);
  return [filters, change] as const;
}

/** As the API takes them; what it refuses, it refuses in its own words. */
export const asked = (filters: Filters) => filters as Asked;

/** The address of a search. */
export const pathOf = (filters: Filters) => `/logs?${new URLSearchParams(filters as Record<string, string>)}`;

/** The address of a line. */
export const pathOfLine = (id: string) => `/logs/line/${encodeURIComponent(id)}`;

/** What a line comes from, in one word. */
export const sourceOf = ({ source, container, containerId, namespace, pod }: LogLine) =>
  source === "docker"
    ? container || containerId.slice(0, 12)
    : `${namespace}/${pod}${container ? `/${container}` : ""}`;

/** The filters that mean all lines from where *line* comes from. */
export const filtersOf = ({ source, agentId, containerId, namespace, pod, container }: LogLine): Filters =>
  source === "docker"
    ? { agentId, containerId }
    : { agentId, namespace, pod, ...(container && { container }) };
