// From no agent to the first push: a key, the command for it, and a live wait.

import { Alert, Button, Group, Loader, Stack, Tabs, Text } from "@mantine/core";
import { useRef } from "react";
import { answer, api, words } from "../api/client";
import { useAgents, useChange, useMe } from "../api/queries";
import { CopyBlock } from "./Copy";

const WAIT_REFRESH_MS = 2_000; // somebody sits before the screen and waits

/** The commands that connect an agent to *url*; each ends with an agent that runs. */
export function commandsFor(url: string, key: string): { name: string; text: string; note: string }[] {
  return [
    {
      name: "Docker",
      note: "On the Docker host. The image is built once, in a checkout of monitor: docker build -t monitor .",
      text: `docker run -d --name monitor-agent --restart unless-stopped \\
  -v /var/run/docker.sock:/var/run/docker.sock \\
  -v monitor-agent:/var/lib/monitor-agent \\
  -e MONITOR_URL=${url} \\
  -e MONITOR_API_KEY=${key} \\
  monitor agent --name "$(hostname)"`,
    },
    {
      name: "systemd",
      note: "As root, on a host where the package is installed (pip install, in /opt/monitor).",
      text: `install -m 600 /dev/null /etc/monitor-agent.env
cat > /etc/monitor-agent.env <<END
MONITOR_URL=${url}
MONITOR_API_KEY=${key}
END
cat > /etc/systemd/system/monitor-agent.service <<END
[Unit]
Description=Agent of monitor
After=network-online.target docker.service
Wants=network-online.target

[Service]
EnvironmentFile=/etc/monitor-agent.env
ExecStart=/opt/monitor/bin/monitor agent
StateDirectory=monitor-agent
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now monitor-agent`,
    },
    {
      name: "Kubernetes",
      note: "With kubectl, in a checkout of monitor: the manifest has the least rights that reading needs.",
      text: `kubectl create namespace monitor
kubectl -n monitor create secret generic monitor-agent \\
  --from-literal=MONITOR_URL=${url} \\
  --from-literal=MONITOR_API_KEY=${key}
kubectl apply -f deploy/kubernetes/agent.yaml`,
    },
    {
      name: "This machine",
      note: "To try it out, in a checkout of monitor after make setup.",
      text: `MONITOR_API_KEY=${key} .venv/bin/monitor agent --url ${url} --state-dir var/agent`,
    },
  ];
}

export function Onboarding() {
  const me = useMe();
  const agents = useAgents(WAIT_REFRESH_MS);
  const make = useChange((name: string) => answer(api.POST("/api/v1/settings/api-keys", { body: { name } })), "keys");
  const known = useRef<Set<string>>(null);
  if (agents.data) known.current ??= new Set(agents.data.filter(({ lastSeen }) => lastSeen).map(({ id }) => id));
  const arrived = agents.data?.find(({ id, lastSeen }) => lastSeen && !known.current!.has(id));
  const registered = agents.data?.find(({ lastSeen }) => !lastSeen);
  if (me.data && me.data.role !== "admin")
    return <Text>An agent needs an API key. Please ask an admin of {me.data.orgName} for one.</Text>;
  if (!make.data)
    return (
      <Stack align="flex-start">
        <Text>
          An agent runs beside your Docker engine or in your cluster, and pushes what it sees. It opens connections to
          this service alone; nothing has to reach it.
        </Text>
        {make.error && (
          <Alert color="red" variant="outline" role="alert">
            {words(make.error)}
          </Alert>
        )}
        <Button loading={make.isPending} onClick={() => make.mutate("agent")}>
          Make an API key and show the command
        </Button>
      </Stack>
    );
  return (
    <Stack>
      <Text>
        The key <b>{make.data.prefix}…</b> is shown this once. It opens the registration of agents; revoke it under
        Settings, API keys.
      </Text>
      <Tabs defaultValue="Docker" keepMounted={false}>
        <Tabs.List>
          {commandsFor("", "").map(({ name }) => (
            <Tabs.Tab key={name} value={name}>
              {name}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {commandsFor(window.location.origin, make.data.key).map(({ name, text, note }) => (
          <Tabs.Panel key={name} value={name} pt="sm">
            <Text size="sm" c="dimmed" mb="xs">
              {note}
            </Text>
            <CopyBlock text={text} label={`Commands for ${name}`} />
          </Tabs.Panel>
        ))}
      </Tabs>
      <Group gap="xs" role="status" wrap="nowrap">
        {arrived ? (
          <Text fw={600}>{arrived.name} is connected.</Text>
        ) : (
          <>
            <Loader size="xs" />
            <Text>
              {registered ? `${registered.name} has registered. Waiting for its first push …` : "Waiting for the first push …"}
            </Text>
          </>
        )}
      </Group>
    </Stack>
  );
}
