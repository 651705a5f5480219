// A policy, new or changed, and what it would have done.

import {
  Alert,
  Anchor,
  Autocomplete,
  Button,
  Card,
  Fieldset,
  Group,
  NativeSelect,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useMemo, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { ApiError, words, type Policy } from "../../api/client";
import { useAgents, useChange, useContainers, useMe, usePods } from "../../api/queries";
import { changePolicy, createPolicy, usePolicy, type Fields } from "../../api/scaling";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { ALL_FIELDS, belongs, bodyOf, draftOf, GPU, GROUPS, isWrong, OTHERS, TYPES, type Draft, type Field, type PolicyType, type Runtime } from "./fields";
import { Simulated } from "./Simulated";

const SERVICE_LABEL = "com.docker.compose.service";

export default function PolicyForm() {
  const { id } = useParams();
  const me = useMe();
  return (
    <Page
      title={id === undefined ? "New policy" : "Edit the policy"}
      before={
        <Anchor component={Link} to={id === undefined ? "/scaling" : `/scaling/${id}`} size="sm">
          ← {id === undefined ? "All policies" : "The policy"}
        </Anchor>
      }
    >
      {me.data?.role === "viewer" ? (
        <Empty title="For members and admins">A viewer makes and changes no policies.</Empty>
      ) : id === undefined ? (
        <Form />
      ) : (
        <Stored id={id} />
      )}
    </Page>
  );
}

function Stored({ id }: { id: string }) {
  const policy = usePolicy(id);
  return <Loaded query={policy}>{(data) => <Form key={data.id} policy={data} />}</Loaded>;
}

/** The workloads that are there now, as a policy refers to them. */
function useWorkloads(runtime: Runtime): string[] {
  const pods = usePods();
  const containers = useContainers();
  const agents = useAgents();
  return useMemo(() => {
    if (runtime === "kubernetes")
      return [...new Set((pods.data ?? []).filter(({ workload }) => workload).map(({ namespace, workload }) => `${namespace}/${workload}`))].sort();
    const pools = new Map((agents.data ?? []).map(({ id, pool }) => [id, pool]));
    const groupOf = (name: string, labels: Record<string, string>) => labels[SERVICE_LABEL] ?? name.replace(/[-_]\d+$/, "");
    return [
      ...new Set((containers.data ?? []).map(({ agentId, name, labels }) => `${pools.get(agentId) ?? "default"}/${groupOf(name, labels)}`)),
    ].sort();
  }, [runtime, pods.data, containers.data, agents.data]);
}

function Form({ policy }: { policy?: Policy }) {
  const navigate = useNavigate();
  const me = useMe();
  const agents = useAgents();
  const [draft, setDraft] = useState<Draft>(() => draftOf(policy));
  const [simulated, simulate] = useState<Fields | null>(null);
  const set = (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes }));
  const workloads = useWorkloads(draft.runtime);
  const body = bodyOf(draft);
  const save = useChange(
    () => (policy ? changePolicy(policy.id, body) : createPolicy(body)),
    "policies",
  );
  const error = save.error instanceof ApiError ? save.error : null;
  const refused = (name: string) => (error?.field === name ? error.message : null);
  const shown = ALL_FIELDS.filter((field) => belongs(field, draft));
  const placed = ["name", "runtime", "targetRef", "policyType", "agentId", ...shown.map(({ name }) => name)];
  const wrong = shown.some((field) => isWrong(field, draft.texts[field.name] ?? ""));
  const gpuAllowed = me.data?.plan !== "free";
  const ready = Boolean(draft.targetRef.trim()) && !wrong;
  const one = (field: Field) => {
    const text = draft.texts[field.name] ?? "";
    return (
      <TextInput
        key={field.name}
        label={field.label}
        description={field.description}
        inputMode={field.number ? "decimal" : "text"}
        value={text}
        onChange={(event) => set({ texts: { ...draft.texts, [field.name]: event.currentTarget.value } })}
        error={isWrong(field, text) ? "Expected a number" : refused(field.name)}
      />
    );
  };
  const changed = simulated !== null && JSON.stringify(simulated) !== JSON.stringify(asSimulated(body));
  return (
    <Stack>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(undefined, { onSuccess: (stored) => void navigate(`/scaling/${stored.id}`) });
        }}
      >
        <Stack maw={900}>
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label="Name"
              required
              maxLength={200}
              value={draft.name}
              onChange={(event) => set({ name: event.currentTarget.value })}
              error={refused("name")}
            />
            <NativeSelect
              label="Runs in"
              value={draft.runtime}
              disabled={policy !== undefined}
              onChange={(event) => set({ runtime: event.currentTarget.value as Runtime, targetRef: "" })}
              data={[
                { value: "kubernetes", label: "Kubernetes: pods" },
                { value: "docker", label: "Docker: containers" },
              ]}
              error={refused("runtime")}
            />
          </SimpleGrid>
          <Autocomplete
            label="Workload"
            description={
              draft.runtime === "kubernetes"
                ? "namespace/name of a Deployment, or namespace/Kind/name."
                : "pool/group: the pool of the agents, or one agent's name; the Compose service, or the containers' name without its number."
            }
            required
            data={workloads}
            limit={20}
            value={draft.targetRef}
            onChange={(targetRef) => set({ targetRef })}
            error={refused("targetRef")}
          />
          {GROUPS.map(([title, fields]) => (
            <Fieldset key={title} legend={title}>
              <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>{fields.filter((field) => belongs(field, draft)).map(one)}</SimpleGrid>
            </Fieldset>
          ))}
          <Fieldset legend="More">
            <Stack>
              <Switch
                label="Every change needs approval"
                description="Then it is proposed, and carried out when somebody approves it within 15 minutes."
                checked={draft.approvalRequired}
                onChange={(event) => set({ approvalRequired: event.currentTarget.checked })}
              />
              <SimpleGrid cols={{ base: 1, xs: 2 }}>
                <NativeSelect
                  label="Type"
                  description={gpuAllowed ? "GPU-aware types watch GPUs too." : "GPU-aware types need the Pro plan."}
                  value={draft.policyType}
                  onChange={(event) => set({ policyType: event.currentTarget.value as PolicyType | "" })}
                  data={[
                    { value: "", label: "by usage alone" },
                    ...(gpuAllowed ? Object.entries(TYPES).map(([value, label]) => ({ value, label })) : []),
                  ]}
                  error={refused("policyType")}
                />
                <NativeSelect
                  label="Agent"
                  description="Only where several agents report the same workload."
                  value={draft.agentId}
                  onChange={(event) => set({ agentId: event.currentTarget.value })}
                  data={[
                    { value: "", label: "any" },
                    ...(agents.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
                  ]}
                  error={refused("agentId")}
                />
                {GPU.filter((field) => draft.policyType && field.of === draft.policyType).map(one)}
                {OTHERS.map(one)}
              </SimpleGrid>
            </Stack>
          </Fieldset>
          {save.error && !(error?.field && placed.includes(error.field)) && (
            <Alert color="red" variant="outline" role="alert">
              {words(save.error)}
            </Alert>
          )}
          <Group>
            <Button type="submit" loading={save.isPending} disabled={!ready || !draft.name.trim()}>
              {policy ? "Save" : "Make the policy"}
            </Button>
            <Button variant="default" disabled={!ready} onClick={() => simulate(asSimulated(body))}>
              Simulate
            </Button>
            {!policy && (
              <Text size="sm" c="dimmed">
                It begins as a dry run: it says what it would do, and does nothing.
              </Text>
            )}
          </Group>
        </Stack>
      </form>
      {simulated && (
        <Card withBorder padding="md" component="section" aria-label="Simulation">
          <Group justify="space-between" mb="xs">
            <Title order={2} size="h5">
              What it would have done
            </Title>
            <RangePicker />
          </Group>
          {changed && (
            <Text size="sm" c="dimmed" mb="xs">
              The form has changed since. Simulate again to see what that means.
            </Text>
          )}
          <Simulated policy={simulated} targets={simulated} />
        </Card>
      )}
    </Stack>
  );
}

/** What is simulated needs no name yet. */
const asSimulated = (body: Fields): Fields => ({ ...body, name: (body.name as string).trim() || "not saved yet" });
