// One stream of server-sent events, held open: where it breaks it goes on after the last line, without a repeat.
//
// Not the browser's EventSource: that one cannot tell why a stream is refused.

import { ApiError, ConnectionLost } from "../../api/client";

/** A line as the service sends it. */
export interface StreamedLine {
  line: string;
  ts: string;
  stream: string;
}

export type State =
  | { kind: "connecting" }
  | { kind: "waiting"; message: string }
  | { kind: "live" }
  | { kind: "lost"; seconds: number }
  | { kind: "ended"; reason: string }
  | { kind: "failed"; error: Error };

export interface Listener {
  onState: (state: State) => void;
  onLine: (line: StreamedLine) => void;
  /** So many lines are not shown, and why. */
  onSkipped: (count: number) => void;
}

const SILENT_MS = 45_000; // three comments of the service that did not come
const FIRST_WAIT_SECONDS = 1;
const LONGEST_WAIT_SECONDS = 15;
const MOVED = "shutdown"; // of the process, and not of the stream: another one goes on with it
// The service's reasons, in words for people.
const REASONS: Record<string, string> = {
  complete: "the log has ended",
  expired: "it was followed for as long as is allowed at once",
  unwatched: "nobody was there",
  suspended: "the organization is suspended",
};

interface Event {
  type: string;
  data: string;
  id: string;
}

/** Yield the events of a body, as the HTML standard has them; lines end with LF or CRLF. */
export async function* eventsOf(body: ReadableStream<Uint8Array>, onSign: () => void): AsyncGenerator<Event> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let type = "";
  let data: string[] = [];
  let id = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return; // an event that is not ended by an empty line does not count
    onSign();
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const text of lines) {
      const line = text.endsWith("\r") ? text.slice(0, -1) : text;
      if (line === "") {
        if (data.length) yield { type: type || "message", data: data.join("\n"), id };
        type = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const field = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") type = field;
      else if (name === "data") data.push(field);
      else if (name === "id") id = field;
    }
  }
}

/** How far a reader is: the time of the last line, kept when a stream has to begin anew. */
export interface Place {
  ts: string;
}

/** Follow the stream at *path*, on from *place*, until the returned function is called. */
export function follow(path: string, place: Place, listener: Listener): () => void {
  const stop = new AbortController();
  void run(path, place, listener, stop.signal);
  return () => stop.abort();
}

async function run(path: string, place: Place, listener: Listener, stop: AbortSignal) {
  let lastId = "";
  let wait = FIRST_WAIT_SECONDS;
  const tell = (state: State) => !stop.aborted && listener.onState(state);
  while (!stop.aborted) {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENT_MS);
    try {
      tell({ kind: "connecting" });
      // A new stream begins with lines of before: those that were shown already are not shown again.
      const after = lastId ? "" : place.ts;
      const onLine = (line: StreamedLine) => {
        if (line.ts <= after) return;
        place.ts = line.ts;
        listener.onLine(line);
      };
      const response = await fetch(path, {
        headers: { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) },
        signal: AbortSignal.any([stop, silent.signal]),
        cache: "no-store",
      });
      if (!response.ok) throw await refusalOf(response);
      const onSign = () => {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENT_MS);
      };
      const heard = { ...listener, onLine };
      for await (const event of eventsOf(response.body!, onSign)) {
        if (stop.aborted) return;
        if (event.id) lastId = event.id;
        wait = FIRST_WAIT_SECONDS;
        const state = taken(event, heard);
        if (state === "moved") break;
        if (state) {
          tell(state);
          if (state.kind === "ended" || state.kind === "failed") return;
        }
      }
    } catch (error) {
      const isOver = error instanceof ApiError && error.status === 404 && lastId !== "";
      if (isOver) {
        lastId = ""; // nobody kept it while the connection was away: begin anew
        continue;
      }
      if (error instanceof ApiError && error.status < 500) return void tell({ kind: "failed", error });
    } finally {
      clearTimeout(timer);
      silent.abort(); // whatever is left of the body
    }
    tell({ kind: "lost", seconds: wait });
    await pause(wait * 1000, stop);
    wait = Math.min(LONGEST_WAIT_SECONDS, wait * 2);
  }
}

/** Give a line on; return the state that an event leads to, if it does. */
function taken({ type, data }: Event, { onLine, onSkipped }: Listener): State | "moved" | null {
  const told = JSON.parse(data) as Record<string, unknown>;
  switch (type) {
    case "log":
      onLine(told as unknown as StreamedLine);
      return { kind: "live" };
    case "skipped":
      onSkipped(Number(told.lines));
      return null;
    case "waiting":
      return { kind: "waiting", message: String(told.message) };
    case "end":
      if (told.reason === MOVED) return "moved";
      return { kind: "ended", reason: REASONS[String(told.reason)] ?? String(told.reason) };
    case "error":
      return { kind: "failed", error: new Error(String(told.error)) };
    default:
      return null;
  }
}

async function refusalOf(response: Response): Promise<Error> {
  const body = (await response.json().catch(() => null)) as { error?: string; field?: string } | null;
  return body?.error ? new ApiError(response.status, body.error, body.field) : new ConnectionLost();
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
