// A state in words, with a dot that repeats it in colour; and a number with a bar that repeats it in length.

import { VisuallyHidden } from "@mantine/core";
import type { ReactNode } from "react";

const GOOD = new Set(["online", "running", "Running", "Ready", "Succeeded", "ready", "resolved", "delivered", "applied", "enabled"]);
const BAD = new Set(["offline", "dead", "Failed", "NotReady", "exited", "Unknown", "firing", "failing", "failed"]);

interface StatusProps {
  children: string;
  /** Only the dot is seen; the word is still read out. */
  dot?: boolean;
}

export function Status({ children, dot }: StatusProps) {
  const tone = GOOD.has(children) ? "good" : BAD.has(children) ? "bad" : "other";
  return (
    <span className="status">
      <span className={`dot ${tone}`} aria-hidden />
      {dot ? <VisuallyHidden>{children || "unknown"}</VisuallyHidden> : children || "unknown"}
    </span>
  );
}

const HIGH_PERCENT = 90;

interface MeterProps {
  /** The length, 0 to 100. */
  percent: number;
  /** The number in words. */
  children: string;
  /** Long is not bad. */
  plain?: boolean;
}

export function Meter({ percent, children, plain }: MeterProps) {
  const width = Math.min(100, Math.max(0, percent));
  return (
    <span className="meter">
      <span className="number">{children}</span>
      <span className="track" aria-hidden>
        <span className={!plain && percent >= HIGH_PERCENT ? "bar high" : "bar"} style={{ width: `${width}%` }} />
      </span>
    </span>
  );
}

export type Tone = "good" | "bad" | "other" | "plain";

/** A word in a frame, whose colour repeats how much it matters. */
export const Mark = ({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) => (
  <span className={`mark ${tone}`}>{children}</span>
);
