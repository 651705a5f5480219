// What a live tail follows: containers and pods, in the URL as `on`.

export type Target =
  | { agentId: string; containerId: string }
  | { agentId: string; namespace: string; pod: string; container?: string };

// A browser opens six connections to one service; each tail holds one, and lists and searches need some.
export const MOST_TARGETS = 4;

/** A target's text in the URL: `c/<agent>/<container id>` or `p/<agent>/<namespace>/<pod>[/<container>]`. */
export function textOf(target: Target): string {
  const parts =
    "containerId" in target
      ? ["c", target.agentId, target.containerId]
      : ["p", target.agentId, target.namespace, target.pod, ...(target.container ? [target.container] : [])];
  return parts.map(encodeURIComponent).join("/");
}

/** The target that a text names; null for what is none. */
function targetOf(text: string): Target | null {
  let parts: string[];
  try {
    parts = text.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
  const [kind, agentId, first, second, container] = parts;
  if (!agentId || !first) return null;
  if (kind === "c" && parts.length === 3) return { agentId, containerId: first };
  if (kind !== "p" || !second || parts.length > 5) return null;
  return { agentId, namespace: first, pod: second, ...(container && { container }) };
}

/** The targets of `on`: at most `MOST_TARGETS`, each once. */
export function targetsOf(on: string): Target[] {
  const found = new Map<string, Target>();
  for (const text of on.split(",")) {
    const target = targetOf(text);
    if (target && found.size < MOST_TARGETS) found.set(textOf(target), target);
  }
  return [...found.values()];
}

/** `on` for some targets. */
export const onOf = (targets: Target[]) => targets.map(textOf).join(",");

/** The address of the page that follows *targets*. */
export const pathOfTail = (...targets: Target[]) => `/tail?${new URLSearchParams({ on: onOf(targets) })}`;

/** The API's path of the stream, with how many old lines come first; *sinceSeconds* 0: however old. */
export function streamPathOf(target: Target, tail: number, sinceSeconds: number): string {
  const query = new URLSearchParams({ follow: "1", tail: `${tail}`, agentId: target.agentId });
  if (sinceSeconds) query.set("sinceSeconds", `${sinceSeconds}`);
  if ("containerId" in target) return `/api/v1/logs/containers/${encodeURIComponent(target.containerId)}?${query}`;
  if (target.container) query.set("container", target.container);
  return `/api/v1/logs/pods/${encodeURIComponent(target.namespace)}/${encodeURIComponent(target.pod)}?${query}`;
}
