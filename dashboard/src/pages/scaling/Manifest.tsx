// What a change applies, line by line against what was before it.

import { Code } from "@mantine/core";
import type { Decision } from "../../api/client";

type Change = Pick<Decision, "renderedManifest" | "fromReplicas" | "toReplicas">;

/** The lines of a change; those of a replica count stand twice, as they were and as they become. */
function linesOf({ renderedManifest, fromReplicas, toReplicas }: Change): [sign: " " | "-" | "+", text: string][] {
  const lines = renderedManifest.trimEnd().split("\n");
  const count = new RegExp(`^(\\s*"?replicas"?:\\s*)${toReplicas}(,?)$`);
  // A document of Kubernetes has one count, of the whole workload; commands have each host's own.
  const whole = lines.filter((line) => /"?replicas"?:/.test(line)).length === 1 && !renderedManifest.includes('"commands"');
  if (whole)
    return lines.flatMap((line): [" " | "-" | "+", string][] => {
      const found = count.exec(line);
      return found
        ? [
            ["-", `${found[1]}${fromReplicas}${found[2]}`],
            ["+", line],
          ]
        : [[" ", line]];
    });
  return [
    ["-", `replicas in all: ${fromReplicas}`],
    ["+", `replicas in all: ${toReplicas}`],
    ...lines.map((line): [" ", string] => [" ", line]),
  ];
}

export function Manifest({ change }: { change: Change }) {
  return (
    <Code block className="block diff" tabIndex={0} aria-label="Manifest">
      {linesOf(change).map(([sign, text], index) => (
        <span key={index} className={sign === "+" ? "added" : sign === "-" ? "removed" : undefined}>
          {sign} {text}
          {"\n"}
        </span>
      ))}
    </Code>
  );
}
