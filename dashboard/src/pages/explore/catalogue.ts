// What the editor completes with: names and values that this organization has.

import type { PrometheusClient } from "@prometheus-io/codemirror-promql";
import { answer, api } from "../../api/client";

const MOST = 1_000; // proposals that anybody scrolls through
const RECENT_SECONDS = 86_400; // of what is gone longer, nothing is proposed

type Listed = Promise<{ data?: unknown; error?: unknown; response: Response }>;

/** Ask below /prometheus, whose answers are all `{status, data}`; nothing is proposed if that fails. */
async function listed<T>(call: Listed, nothing: T): Promise<T> {
  try {
    return ((await answer(call)) as { data: T }).data;
  } catch {
    return nothing;
  }
}

const query = (metric?: string) => ({
  limit: `${MOST}`,
  start: `${Math.floor(Date.now() / 1000) - RECENT_SECONDS}`,
  ...(metric && { "match[]": [metric] }),
});

const valuesOf = (name: string, metric?: string) =>
  listed<string[]>(
    api.GET("/prometheus/api/v1/label/{name}/values", {
      params: { path: { name }, query: query(metric) as never },
    }),
    [],
  );

export const catalogue: PrometheusClient = {
  labelNames: (metric) =>
    listed<string[]>(api.GET("/prometheus/api/v1/labels", { params: { query: query(metric) as never } }), []),
  labelValues: (name, metric) => valuesOf(name, metric),
  metricNames: () => valuesOf("__name__"),
  metricMetadata: () => listed(api.GET("/prometheus/api/v1/metadata"), {}),
  series: async () => [], // values are asked for by label, which answers sooner
  flags: async () => ({}),
};
