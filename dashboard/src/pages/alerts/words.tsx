// Alerts and rules in words: states, conditions, severities, resources.

import { Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Alert, Operator } from "../../api/client";
import { formatOf } from "../../ui/series";
import { Mark, Status, type Tone } from "../../ui/Status";

export const SIGNS: Record<Operator, string> = { gt: ">", gte: "≥", lt: "<", lte: "≤", eq: "=" };
export const OPERATORS: { value: Operator; label: string }[] = [
  { value: "gt", label: "> above" },
  { value: "gte", label: "≥ at or above" },
  { value: "lt", label: "< below" },
  { value: "lte", label: "≤ at or below" },
  { value: "eq", label: "= equal to" },
];
const CROSSES: Record<Operator, (value: number, threshold: number) => boolean> = {
  gt: (value, threshold) => value > threshold,
  gte: (value, threshold) => value >= threshold,
  lt: (value, threshold) => value < threshold,
  lte: (value, threshold) => value <= threshold,
  eq: (value, threshold) => value === threshold,
};
export const SEVERITIES = ["info", "warning", "critical"];
const TONES: Record<string, Tone> = { critical: "bad", error: "bad", page: "bad", warning: "other" };

/** Whether a rule would fire for a value. */
export const crosses = (operator: Operator, value: number, threshold: number) => CROSSES[operator](value, threshold);

/** The name of the metric that a selector asks for; empty if it asks for several, or is not written yet. */
export const metricOf = (selector: string) =>
  /^\s*([A-Za-z_:][\w:]*)/.exec(selector)?.[1] ?? /__name__\s*=\s*["'`]([\w:]+)/.exec(selector)?.[1] ?? "";

/** A condition without its selector: `> 80 %`. */
export const limitOf = ({ operator, threshold }: { operator: Operator; threshold: number }, metric: string) =>
  `${SIGNS[operator]} ${formatOf(metric)(threshold)}`;

export const valueOf = (alert: Alert) => formatOf(alert.metric.__name__ ?? "")(alert.value);
export const pathOf = ({ id }: Alert) => `/alerts/${id}`;
export const isOpen = ({ state }: Alert) => state !== "resolved";

export const Severity = ({ children }: { children: string }) => (
  <Mark tone={TONES[children] ?? "plain"}>{children || "none"}</Mark>
);

export function State({ alert }: { alert: Alert }) {
  return (
    <>
      <Status>{alert.state}</Status>
      {alert.stale && (
        <Tooltip label="Its agent is offline: whether it still holds is not known.">
          <span tabIndex={0}>
            {" "}
            <Mark tone="other">stale</Mark>
          </span>
        </Tooltip>
      )}
    </>
  );
}

/** The resource that an alert is about, with a link to where it is shown. */
export function Resource({ alert, children }: { alert: Alert; children?: ReactNode }) {
  const { resourceType, resourceId, resourceName, agentId } = alert;
  const name = resourceName || resourceId;
  const found = encodeURIComponent(name.split("/").at(-1) ?? "");
  const paths: Partial<Record<Alert["resourceType"], string>> = {
    container: `/containers/${agentId}/${encodeURIComponent(resourceId)}`,
    pod: `/pods?q=${found}`,
    node: `/nodes?q=${found}`,
    agent: `/agents?q=${found}`,
  };
  const path = paths[resourceType];
  const shown = children ?? name;
  return path ? (
    <Link to={path} title={name}>
      {shown}
    </Link>
  ) : (
    <span title={name}>{shown}</span>
  );
}
