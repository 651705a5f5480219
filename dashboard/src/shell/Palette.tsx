// The command palette: Ctrl or Cmd and K; pages, and every agent and container by name.

import { createSpotlight, Spotlight, useSpotlight } from "@mantine/spotlight";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import type { Agent, Container } from "../api/client";
import { matcher } from "../ui/Search";
import { PAGES } from "./pages";

export const [store, palette] = createSpotlight();

const NAMED = { content: { "aria-label": "Go to" } };
const SHOWN = 12; // more lines would scroll

interface Target {
  label: string;
  kind: string;
  path: string;
}

export function Palette() {
  const [text, setText] = useState("");
  const client = useQueryClient();
  const navigate = useNavigate();
  const targets = (): Target[] => {
    const agents = client.getQueryData<Agent[]>(["agents"]) ?? [];
    const containers = client.getQueryData<Container[]>(["containers"]) ?? [];
    return [
      ...PAGES.map(({ path, label }) => ({ label, kind: "Page", path })),
      { label: "Alert rules", kind: "Alerts", path: "/alerts/rules" },
      { label: "Channels", kind: "Alerts", path: "/alerts/channels" },
      { label: "Decisions", kind: "Scaling", path: "/scaling/decisions" },
      { label: "API keys", kind: "Settings", path: "/settings/keys" },
      { label: "Users", kind: "Settings", path: "/settings/users" },
      { label: "Usage and limits", kind: "Settings", path: "/settings/limits" },
      ...agents.map(({ name }) => ({ label: name, kind: "Agent", path: `/agents?q=${encodeURIComponent(name)}` })),
      ...containers.map(({ name, agentId, id }) => ({
        label: name,
        kind: "Container",
        path: `/containers/${agentId}/${encodeURIComponent(id)}`,
      })),
    ];
  };
  const { opened } = useSpotlight(store);
  const found: Target[] = [];
  const matches = matcher(text);
  // Closed, it is drawn with every page: then it must not look at thousands of names.
  for (const target of opened ? targets() : []) {
    if (matches(target.label, target.kind)) found.push(target);
    if (found.length === SHOWN) break;
  }
  return (
    <Spotlight.Root store={store} query={text} onQueryChange={setText} shortcut={["mod + K"]} attributes={NAMED}>
      <Spotlight.Search placeholder="Page, agent or container" aria-label="Page, agent or container" />
      <Spotlight.ActionsList>
        {found.length === 0 && <Spotlight.Empty>Nothing has that name.</Spotlight.Empty>}
        {found.map(({ label, kind, path }) => (
          <Spotlight.Action key={`${kind} ${path}`} label={label} description={kind} onClick={() => void navigate(path)} />
        ))}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}
