// The found lines as a file: asked for page by page, up to a bound that is told.

import type { LogLine } from "../../api/client";
import { pageOf, type Asked } from "../../api/logs";
import { plain } from "./ansi";
import { sourceOf } from "./filters";

export const MOST_LINES = 20_000;
const MOST_CHARACTERS = 50_000_000; // a line may have 64 KiB; the file is made in memory
const SAVED_MS = 60_000; // until every browser has taken the file over
const PAGE_LINES = 1_000; // the most that the API gives at once

export type Form = "ndjson" | "text";

const FORMS: Record<Form, { type: string; ending: string; write: (line: LogLine) => string }> = {
  ndjson: { type: "application/x-ndjson", ending: "ndjson", write: (line) => JSON.stringify(line) },
  text: {
    type: "text/plain",
    ending: "log",
    write: (line) => `${line.time} ${sourceOf(line)} ${line.stream} ${plain(line.message)}`,
  },
};

export interface Saved {
  lines: number;
  /** There were more than the bound. */
  more: boolean;
}

/** Save what *asked* finds, newest first, in a file of the reader's. */
export async function download(asked: Asked, form: Form, onProgress: (lines: number) => void): Promise<Saved> {
  const { type, ending, write } = FORMS[form];
  const parts: string[] = [];
  let characters = 0;
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof pageOf>> = await pageOf(asked, PAGE_LINES, cursor);
    for (const line of page.lines) {
      const text = `${write(line)}\n`;
      characters += text.length;
      parts.push(text);
    }
    cursor = page.next;
    onProgress(parts.length);
  } while (cursor && parts.length < MOST_LINES && characters < MOST_CHARACTERS);
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `logs-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), SAVED_MS);
  return { lines: parts.length, more: cursor !== null };
}
