// Where in a selector the service has found what it refuses.

import { Code } from "@mantine/core";

/** Show where in *text* the service has found what it refuses: it says `at` and a place, from 1. */
export function Pointer({ text, error }: { text: string; error: string }) {
  const place = Number(/\bat (\d+)\b/.exec(error)?.[1]);
  if (!place || text.includes("\n")) return null;
  return (
    <Code block mb="xs" aria-hidden>
      {`${text}\n${" ".repeat(place - 1)}^`}
    </Code>
  );
}
