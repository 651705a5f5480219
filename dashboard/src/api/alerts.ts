// What the pages about alerts ask for.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { answer, api, ApiError, type Alert, type Operator } from "./client";
import { EMPTY_REFRESH_MS, REFRESH_MS, windowOf, type Span } from "./queries";

const ALERTS_REFRESH_MS = 5_000; // they are what somebody waits for
export const ALERTS_SHOWN = 200; // the service lists the newest ones

/** The newest alerts, or the newest of one state. */
export const useAlerts = (state?: Alert["state"]) =>
  useQuery({
    queryKey: ["alerts", state ?? ""],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/alerts", { params: { query: state ? { state } : {} }, signal })),
    refetchInterval: ALERTS_REFRESH_MS,
    placeholderData: keepPreviousData,
  });

export const useAlert = (id: string) =>
  useQuery({
    queryKey: ["alerts", "one", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/alerts/{id}", { params: { path: { id } }, signal })),
    refetchInterval: ({ state }) => (state.data?.state === "resolved" ? false : ALERTS_REFRESH_MS),
  });

export const useRules = () =>
  useQuery({
    queryKey: ["rules"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/alerts/rules", { signal })),
    refetchInterval: REFRESH_MS,
  });

export const useChannels = () =>
  useQuery({
    queryKey: ["channels"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/settings/channels", { signal })),
    refetchInterval: REFRESH_MS,
  });

const wasRefused = (error: unknown) => error instanceof ApiError && error.status < 500;

/** The present values of a selector. */
export const usePresent = (selector: string) =>
  useQuery({
    queryKey: ["present", selector],
    enabled: selector.trim() !== "",
    queryFn: async ({ signal }) =>
      (await answer(api.GET("/api/v1/metrics/instant", { params: { query: { metric: selector } as never }, signal })))
        .series,
    refetchInterval: ({ state }) =>
      wasRefused(state.error) ? false : state.data?.length === 0 ? EMPTY_REFRESH_MS : REFRESH_MS,
    placeholderData: keepPreviousData,
    structuralSharing: false,
  });

export interface Condition {
  metric: string;
  operator: Operator;
  threshold: number;
}

/** What a condition would have fired over *span*, and the window that was judged. */
export const useBacktest = (condition: Condition | null, span: Span, step: number) =>
  useQuery({
    queryKey: ["backtest", condition, span, step],
    enabled: condition !== null,
    queryFn: async ({ signal }) => {
      const { start, end } = windowOf(span, step, Date.now() / 1000);
      const body = { ...condition!, start, end, step: `${step}s` };
      return answer(api.POST("/api/v1/alerts/rules/backtest", { body: body as never, signal }));
    },
    refetchInterval: ({ state }) =>
      wasRefused(state.error) || !("lastSeconds" in span) ? false : Math.max(REFRESH_MS, step * 1000),
    placeholderData: keepPreviousData,
    structuralSharing: false,
  });

export const acknowledge = ({ id, comment }: { id: string; comment: string }) =>
  answer(api.PUT("/api/v1/alerts/{id}/acknowledge", { params: { path: { id } }, body: { comment } }));

export const resolve = (id: string) => answer(api.PUT("/api/v1/alerts/{id}/resolve", { params: { path: { id } } }));
