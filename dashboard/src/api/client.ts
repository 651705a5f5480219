// The one client of the service's API.  Requests carry the session's cookie, which no script can read.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

type Schemas = components["schemas"];
export type Agent = Schemas["Agent"];
export type Container = Schemas["monitor.inventory.models.Container"];
export type Pod = Schemas["monitor.inventory.models.Pod"];
export type Node = Schemas["monitor.inventory.models.Node"];
export type Summary = Schemas["Summary"];
export type Me = Schemas["Me"];
export type ApiKey = Schemas["ApiKey"];
export type User = Schemas["User"];
export type Limits = Schemas["Limits"];
export type RangeSeries = Schemas["RangeSeries"];
export type InstantSample = Schemas["InstantSample"];
export type Alert = Schemas["Alert"];
export type Rule = Schemas["Rule"];
export type Operator = Rule["operator"];
export type Backtest = Schemas["Backtest"];
export type Channel = Schemas["Channel"];
export type Policy = Schemas["Policy"];
export type Proposal = Schemas["Proposal"];
export type Decision = Schemas["Decision"];
export type Simulation = Schemas["Simulation"];
export type ChannelType = Channel["type"];
export type LogLine = Schemas["FoundLine"];
export type Histogram = Schemas["Histogram"];
export type Role = Me["role"];

export const api = createClient<paths>({ credentials: "same-origin" });

/** A refusal of the service, with its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly field?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
  }
}

/** No answer came, or one that is not the service's. */
export class ConnectionLost extends Error {
  constructor() {
    super("The service does not answer.");
  }
}

const AWAY = new Set([502, 503, 504]); // the service or a proxy before it says that it cannot now

const TOO_SLOW = "search_too_slow"; // a search's own 503: the service is there

/** Whether a search was given up because it took too long. */
export const isTooSlow = (error: unknown) => error instanceof ApiError && error.message.startsWith(TOO_SLOW);

const watchers = new Set<() => void>();
let lost = false;

/** Whether the last request found the service away; for `useSyncExternalStore`. */
export const connection = {
  isLost: () => lost,
  watch(watcher: () => void) {
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  },
};

function note(isLost: boolean) {
  if (lost === isLost) return;
  lost = isLost;
  watchers.forEach((watcher) => watcher());
}

interface Result<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Return what a call answers; throw `ApiError` or `ConnectionLost`. */
export async function answer<T>(call: Promise<Result<T>>): Promise<T> {
  let result: Result<T>;
  try {
    result = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    note(true);
    throw new ConnectionLost();
  }
  const { response } = result;
  const body = (typeof result.error === "object" ? result.error : null) as {
    error?: string;
    field?: string;
  } | null;
  note(AWAY.has(response.status) && !body?.error?.startsWith(TOO_SLOW));
  if (response.ok) return result.data as T;
  if (!body?.error) throw new ConnectionLost();
  const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  throw new ApiError(response.status, body.error, body.field, retryAfter);
}

const CODES: Record<string, string> = {
  unauthorized: "You are not logged in.",
  invalid_credentials: "E-mail or password is wrong.",
  org_suspended: "This organization is suspended. Please ask the operator of the service.",
  forbidden: "Your role does not allow that.",
  not_found: "It does not exist any more.",
  storage_unavailable: "The service's storage is away for the moment. It is asked again by itself.",
};

/** Return an error in words for people. */
export function words(error: unknown): string {
  if (error instanceof ApiError) {
    const wait = error.retryAfterSeconds ? ` Please wait ${error.retryAfterSeconds} s.` : "";
    if (error.status === 429) return `Too many attempts (${error.message}).${wait}`;
    return CODES[error.message] ?? error.message;
  }
  return error instanceof Error ? error.message : String(error);
}
