// One policy: what it sees and wants, what waits for approval, what it would have done, what it did.

import { Alert, Anchor, Button, Card, Group, SimpleGrid, Stack, Text, Textarea, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState, type ReactNode } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { ApiError, words, type Policy as PolicyData, type Proposal } from "../../api/client";
import { useAgents, useChange, useMe } from "../../api/queries";
import {
  changePolicy,
  decide,
  deletePolicy,
  rollBack,
  useDecisions,
  usePolicy,
  wake,
  type Fields,
} from "../../api/scaling";
import { Confirm } from "../../ui/Confirm";
import { count, percent } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { Status } from "../../ui/Status";
import { Ago } from "../../ui/zone";
import { DecisionTable } from "./DecisionTable";
import { Manifest } from "./Manifest";
import { Simulated } from "./Simulated";
import { TYPES } from "./fields";
import { changeOf, Mode, triggerOf } from "./words";

const SHOWN = 20; // of its decisions

export default function Policy() {
  const { id = "" } = useParams();
  const policy = usePolicy(id);
  const me = useMe();
  const gone = policy.error instanceof ApiError && policy.error.status === 404;
  return (
    <Page
      title={policy.data?.name ?? "Policy"}
      before={
        <Anchor component={Link} to="/scaling" size="sm">
          ← All policies
        </Anchor>
      }
      tools={policy.data && !gone && me.data?.role !== "viewer" && <Actions policy={policy.data} />}
    >
      {gone ? (
        <Empty
          title="There is no such policy"
          action={<Link to={`/scaling/decisions?policyId=${encodeURIComponent(id)}`}>Its decisions</Link>}
        >
          It may have been deleted. What it decided stays in the log.
        </Empty>
      ) : (
        <Loaded query={policy}>{(data) => <Detail policy={data} mayDecide={me.data?.role !== "viewer"} />}</Loaded>
      )}
    </Page>
  );
}

type Question = "live" | "dry" | "rollback" | "delete";

function Actions({ policy }: { policy: PolicyData }) {
  const { id, name } = policy;
  const navigate = useNavigate();
  const [asked, ask] = useState<Question | null>(null);
  const change = useChange((body: Fields) => changePolicy(id, body), "policies");
  const back = useChange(() => rollBack(id), "policies", "decisions");
  const rouse = useChange(() => wake(id), "policies", "decisions");
  const remove = useChange(() => deletePolicy(id), "decisions");
  const refuse = (error: unknown) => notifications.show({ color: "red", message: words(error) });
  const close = () => ask(null);
  return (
    <>
      <Button component={Link} to={`/scaling/${id}/edit`} size="xs" variant="default">
        Edit
      </Button>
      <Button
        size="xs"
        variant="default"
        loading={change.isPending}
        onClick={() => change.mutate({ enabled: !policy.enabled }, { onError: refuse })}
      >
        {policy.enabled ? "Pause" : "Resume"}
      </Button>
      {policy.policyType === "scale_to_zero_on_idle" && (
        <Button size="xs" variant="default" loading={rouse.isPending} onClick={() => rouse.mutate(undefined, { onError: refuse })}>
          Wake
        </Button>
      )}
      {!policy.dryRun && (
        <>
          <Button size="xs" variant="default" onClick={() => ask("rollback")}>
            Roll back
          </Button>
          <Button size="xs" variant="default" onClick={() => ask("dry")}>
            Back to dry run
          </Button>
        </>
      )}
      <Button size="xs" variant="default" onClick={() => ask("delete")}>
        Delete
      </Button>
      {policy.dryRun && (
        <Button size="xs" onClick={() => ask("live")}>
          Go live
        </Button>
      )}
      {asked === "live" && (
        <Confirm title={`Let ${name} act?`} verb="Go live" action={() => change.mutateAsync({ dryRun: false })} onClose={close}>
          <Text>
            From its next evaluation on it changes {policy.targetRef}
            {policy.approvalRequired ? ", each time after somebody approved it." : " by itself."} It keeps between{" "}
            {policy.minReplicas} and {policy.maxReplicas} replicas.
          </Text>
        </Confirm>
      )}
      {asked === "dry" && (
        <Confirm
          title={`Let ${name} only say what it would do?`}
          verb="Back to dry run"
          action={() => change.mutateAsync({ dryRun: true })}
          onClose={close}
        >
          <Text>It changes nothing any more. The replicas stay as they are.</Text>
        </Confirm>
      )}
      {asked === "rollback" && (
        <Confirm title={`Roll back ${name}?`} verb="Roll back" action={() => back.mutateAsync(undefined)} onClose={close}>
          <Text>
            The replicas go back to what they were before its last change that was not rolled back yet; again, one step
            further. Both cooldowns begin.
          </Text>
        </Confirm>
      )}
      {asked === "delete" && (
        <Confirm
          title={`Delete the policy ${name}?`}
          verb="Delete"
          typed={name}
          action={async () => {
            await remove.mutateAsync(undefined);
            await navigate("/scaling");
          }}
          onClose={close}
        >
          <Text>The replicas stay as they are, and what it decided stays in the log.</Text>
        </Confirm>
      )}
    </>
  );
}

function Detail({ policy, mayDecide }: { policy: PolicyData; mayDecide: boolean }) {
  const agents = useAgents();
  const decisions = useDecisions(policy.id, SHOWN);
  const agent = agents.data?.find(({ id }) => id === policy.agentId)?.name ?? policy.agentId;
  const targets = [
    policy.cpuTargetPercent !== null && `CPU ${percent(policy.cpuTargetPercent)}`,
    policy.memoryTargetPercent !== null && `memory ${percent(policy.memoryTargetPercent)}`,
    policy.nodePressureTargetPercent !== null && `node pressure ${percent(policy.nodePressureTargetPercent)}`,
  ].filter(Boolean);
  const pairs: [string, ReactNode][] = [
    ["Mode", <Mode key="mode" policy={policy} />],
    ["Workload", `${policy.targetRef} (${policy.runtime})`],
    ["Replicas observed", count(policy.currentReplicas)],
    ["Replicas wanted", count(policy.desiredReplicas)],
    ["Health", <Status key="health">{policy.applyHealth}</Status>],
    ["Targets", targets.join(", ")],
    ["Bounds", `${policy.minReplicas} to ${policy.maxReplicas}, ${policy.stepSize} at once`],
    ["Cooldown", `${policy.cooldownScaleUpSeconds} s up, ${policy.cooldownScaleDownSeconds} s down`],
    ["Approval", policy.approvalRequired ? "needed for every change" : "not needed"],
    ["Evaluated", <Ago key="evaluated" at={policy.lastEvaluatedAt} />],
    ...(policy.policyType ? [["Type", TYPES[policy.policyType]] as [string, ReactNode]] : []),
    ...(policy.maxReplicasPerHost !== null ? [["Most a host", count(policy.maxReplicasPerHost)] as [string, ReactNode]] : []),
    ...(policy.lbPoolRef ? [["Load balancer pool", policy.lbPoolRef] as [string, ReactNode]] : []),
    ...(agent ? [["Agent", agent] as [string, ReactNode]] : []),
  ];
  return (
    <Stack>
      {policy.pendingApproval && (
        <Waiting key={policy.pendingApproval.generation} id={policy.id} proposal={policy.pendingApproval} mayDecide={mayDecide} />
      )}
      <Card withBorder padding="md">
        <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="sm" component="dl" m={0}>
          {pairs.map(([label, value]) => (
            <div key={label} className="pair">
              <Text component="dt" size="xs" c="dimmed">
                {label}
              </Text>
              <Text component="dd" m={0} size="sm" className="title">
                {value}
              </Text>
            </div>
          ))}
        </SimpleGrid>
        <Text size="sm" mt="sm" className="title" role="status" aria-label="Found last">
          {policy.lastReason || "It has not been evaluated yet."}
        </Text>
        {policy.applyMessage && (
          <Text size="sm" mt={4} c="dimmed" className="title">
            The agent says: {policy.applyMessage}
          </Text>
        )}
      </Card>
      <Card withBorder padding="md" component="section" aria-label="Decisions">
        <Group justify="space-between" mb="xs">
          <Title order={2} size="h5">
            Newest decisions
          </Title>
          <Link to={`/scaling/decisions?policyId=${policy.id}`}>All</Link>
        </Group>
        <Loaded
          query={decisions}
          empty={(all) =>
            all.length === 0 && (
              <Text size="sm" c="dimmed">
                It has decided nothing yet.
              </Text>
            )
          }
        >
          {(all) => <DecisionTable decisions={all} policy={policy} />}
        </Loaded>
      </Card>
      <Card withBorder padding="md" component="section" aria-label="Simulation">
        <Group justify="space-between" mb="xs">
          <Title order={2} size="h5">
            What it would have done
          </Title>
          <RangePicker />
        </Group>
        <Simulated policy={policy.id} targets={policy} />
      </Card>
    </Stack>
  );
}

/** The proposal of one generation; the answer is for that one alone. */
function Waiting({ id, proposal, mayDecide }: { id: string; proposal: Proposal; mayDecide: boolean }) {
  const [comment, setComment] = useState("");
  const answer = useChange(
    (verdict: "approve" | "reject") => decide(id, verdict, proposal.generation, comment),
    "policies",
    "decisions",
  );
  return (
    <Card withBorder padding="md" component="section" aria-label="Waits for approval">
      <Title order={2} size="h5" mb="xs">
        Waits for approval: {changeOf(proposal)}
      </Title>
      <Stack gap="xs">
        <Text size="sm">
          {triggerOf(proposal)}. {proposal.reason}
        </Text>
        <Text size="sm" c="dimmed">
          Proposed <Ago at={proposal.createdAt} />, as number {proposal.generation}. After 15 minutes it is made anew.
        </Text>
        <Manifest change={proposal} />
        {mayDecide && (
          <>
            <Textarea
              label="Comment"
              description="Stands in the log. Not needed."
              autosize
              maxRows={4}
              maxLength={2_000}
              value={comment}
              onChange={(event) => setComment(event.currentTarget.value)}
            />
            {answer.error && (
              <Alert color="red" variant="outline" role="alert">
                {words(answer.error)}
              </Alert>
            )}
            <Group>
              <Button loading={answer.isPending} onClick={() => answer.mutate("approve")}>
                Approve
              </Button>
              <Button variant="default" disabled={answer.isPending} onClick={() => answer.mutate("reject")}>
                Reject
              </Button>
            </Group>
          </>
        )}
      </Stack>
    </Card>
  );
}
