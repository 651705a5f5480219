// Rules that most fleets want, to begin with.

import { Button, Card, Group, Title } from "@mantine/core";
import type { Operator } from "../../api/client";

export interface Template {
  name: string;
  metric: string;
  operator: Operator;
  threshold: number;
  severity: string;
  description: string;
}

const TEMPLATES: Template[] = [
  {
    name: "Agent offline",
    metric: "agent_up",
    operator: "lt",
    threshold: 1,
    severity: "critical",
    description: "An agent has not pushed for 90 seconds: nothing is known of its host or cluster.",
  },
  {
    name: "Container stopped",
    metric: "container_running",
    operator: "lt",
    threshold: 1,
    severity: "critical",
    description: "A container exists and does not run. Narrow it to those that always should.",
  },
  {
    name: "Container CPU high",
    metric: "container_cpu_usage_percent",
    operator: "gt",
    threshold: 90,
    severity: "warning",
    description: "A container uses most of a core (100 % = one core).",
  },
  {
    name: "Container memory near its limit",
    metric: "container_memory_usage_percent",
    operator: "gt",
    threshold: 90,
    severity: "critical",
    description: "Beyond its limit a container is killed.",
  },
  {
    name: "Pod not ready",
    metric: "kube_pod_ready",
    operator: "lt",
    threshold: 1,
    severity: "warning",
    description: "A pod takes no traffic.",
  },
  {
    name: "Pod failed",
    metric: 'kube_pod_status_phase{phase="Failed"}',
    operator: "eq",
    threshold: 1,
    severity: "warning",
    description: "All containers of a pod have ended, and at least one with a failure.",
  },
  {
    name: "Node not ready",
    metric: "kube_node_ready",
    operator: "lt",
    threshold: 1,
    severity: "critical",
    description: "A node takes no pods.",
  },
  {
    name: "Node memory high",
    metric: "kube_node_memory_usage_percent",
    operator: "gt",
    threshold: 90,
    severity: "warning",
    description: "A node's memory, of what pods can have: soon pods are evicted.",
  },
];

export function Templates({ onPick }: { onPick: (template: Template) => void }) {
  return (
    <Card withBorder padding="sm">
      <Title order={2} size="h6" mb={6}>
        Begin with
      </Title>
      <Group gap={6}>
        {TEMPLATES.map((template) => (
          <Button
            key={template.name}
            size="compact-sm"
            variant="default"
            fw={400}
            title={template.description}
            onClick={() => onPick(template)}
          >
            {template.name}
          </Button>
        ))}
      </Group>
    </Card>
  );
}
