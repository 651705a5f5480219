// What the pages ask for about logs.  A search is asked once and stays as it was: lines must not run away.

import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { operations } from "./schema";
import { answer, api, ApiError, isTooSlow } from "./client";
import { REFRESH_MS, type Span } from "./queries";

/** Filters and window of a search, as the API's parameters. */
export type Asked = Omit<NonNullable<operations["get_api_v1_logs_search"]["parameters"]["query"]>, "limit" | "cursor">;

const PAGE_LINES = 200;
const MOST_RETRIES = 2;
const MOST_PAGES = 50; // 10,000 lines: nobody reads further, and memory has an end
export const AROUND_MOST = 500; // lines before and after one, of the API

// Trying again what took too long would take as long again.
const retry = (failures: number, error: Error) =>
  !(error instanceof ApiError && (error.status < 500 || isTooSlow(error))) && failures < MOST_RETRIES;

/** Return start and end of *span*, asked at *now* in milliseconds; without an end it is "up to now". */
export function timesOf(span: Span, now: number): Pick<Asked, "start" | "end"> {
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  if ("from" in span) return { start: iso(span.from), end: iso(span.to) };
  return { start: iso(now / 1000 - span.lastSeconds) };
}

/** Ask for one page of lines; the cursor of the next one, if there may be more. */
export async function pageOf(asked: Asked, limit: number, cursor: string | null, signal?: AbortSignal) {
  let next: string | null = null;
  const call = api.GET("/api/v1/logs/search", {
    params: { query: { ...asked, limit, ...(cursor && { cursor }) } },
    ...(signal && { signal }),
  });
  const lines = await answer(
    call.then((result) => {
      next = result.response.headers.get("X-Next-Cursor");
      return result;
    }),
  );
  return { lines, next: next as string | null };
}

export const useLines = (asked: Asked) =>
  useInfiniteQuery({
    queryKey: ["log lines", asked],
    queryFn: ({ pageParam, signal }) => pageOf(asked, PAGE_LINES, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }, pages) => (pages.length < MOST_PAGES ? next : null),
    staleTime: Infinity,
    structuralSharing: false,
    retry,
  });

export const useHistogram = (asked: Asked) =>
  useQuery({
    queryKey: ["log histogram", asked],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/logs/histogram", { params: { query: asked }, signal })),
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    retry,
  });

/** The newest *limit* lines, again and again. */
export const useNewest = (filters: Asked, span: Span, limit: number) =>
  useQuery({
    queryKey: ["newest log lines", filters, span, limit],
    queryFn: async ({ signal }) => (await pageOf({ ...filters, ...timesOf(span, Date.now()) }, limit, null, signal)).lines,
    refetchInterval: "lastSeconds" in span ? REFRESH_MS : false,
    placeholderData: keepPreviousData,
    structuralSharing: false,
    retry,
  });

export const useAround = (id: string, before: number, after: number) =>
  useQuery({
    queryKey: ["log lines around", id, before, after],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/logs/context", { params: { query: { id, before, after } }, signal })),
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    structuralSharing: false,
    retry,
  });
