// What the pages ask for.  Lists refresh by themselves, and rest while the tab is hidden.

import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { answer, api, ApiError } from "./client";

export const REFRESH_MS = 10_000; // agents push every 15 s
export const EMPTY_REFRESH_MS = 3_000; // new series can be queried a few seconds after their first push
const USAGE_REFRESH_MS = 60_000; // counting series costs the storage more than a list does

export const useMe = () =>
  useQuery({ queryKey: ["me"], queryFn: () => answer(api.GET("/api/v1/me")), staleTime: 60_000 });

export const useAgents = (refreshMs = REFRESH_MS) =>
  useQuery({
    queryKey: ["agents"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/agents", { signal })),
    refetchInterval: refreshMs,
  });

// Thousands of elements: comparing old and new deeply would cost more than drawing what is visible.
export const useContainers = () =>
  useQuery({
    queryKey: ["containers"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/containers", { signal })),
    refetchInterval: REFRESH_MS,
    structuralSharing: false,
  });

export const usePods = () =>
  useQuery({
    queryKey: ["pods"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/pods", { signal })),
    refetchInterval: REFRESH_MS,
    structuralSharing: false,
  });

export const useNodes = () =>
  useQuery({
    queryKey: ["nodes"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/nodes", { signal })),
    refetchInterval: REFRESH_MS,
    structuralSharing: false,
  });

export const useKeys = () =>
  useQuery({ queryKey: ["keys"], queryFn: () => answer(api.GET("/api/v1/settings/api-keys")) });

export const useUsers = () =>
  useQuery({ queryKey: ["users"], queryFn: () => answer(api.GET("/api/v1/settings/users")) });

export const useLimits = () =>
  useQuery({
    queryKey: ["limits"],
    queryFn: () => answer(api.GET("/api/v1/settings/limits")),
    refetchInterval: USAGE_REFRESH_MS,
  });

/** A span of time: the last seconds up to now, or from one unix second to another. */
export type Span = { lastSeconds: number } | { from: number; to: number };

export interface Window {
  start: number;
  end: number;
  step: number;
}

/** Return the window of *span* at *now* (all in unix seconds), on multiples of *step*. */
export function windowOf(span: Span, step: number, now: number): Window {
  if ("from" in span) return { start: span.from, end: span.to, step };
  const end = Math.floor(now / step) * step;
  return { start: end - span.lastSeconds, end, step };
}

/** Ask for a selector's values over *span*; what was there stays visible until the answer comes. */
export const useRange = (selector: string, span: Span, step: number) =>
  useQuery({
    queryKey: ["range", selector, span, step],
    enabled: selector.trim() !== "",
    queryFn: async ({ signal }) => {
      const window = windowOf(span, step, Date.now() / 1000);
      const query = { metric: selector, start: window.start, end: window.end, step: `${step}` };
      const { series } = await answer(api.GET("/api/v1/metrics/range", { params: { query }, signal }));
      return { window, series };
    },
    refetchInterval: ({ state }) => {
      const refused = state.error instanceof ApiError && state.error.status < 500;
      if (!("lastSeconds" in span) || refused) return false;
      return state.data?.series.length === 0 ? EMPTY_REFRESH_MS : Math.max(REFRESH_MS, step * 1000);
    },
    placeholderData: keepPreviousData,
    structuralSharing: false,
  });

/** A change: runs *change*, then asks again for the queries that *touches* names. */
export function useChange<In, Out>(change: (input: In) => Promise<Out>, ...touches: string[]) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(touches.map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
}
