// The decision log, filtered by the URL, and what its chain is worth.

import { Alert, Button, Card, Code, Group, List, NativeSelect, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { words } from "../../api/client";
import { useChange } from "../../api/queries";
import { DECISIONS_SHOWN, useDecisions, usePolicies, verify } from "../../api/scaling";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { matcher, Search } from "../../ui/Search";
import { useUrl } from "../../ui/url";
import { DecisionTable } from "./DecisionTable";
import { ACTIONS } from "./words";

export function Decisions() {
  const [params, change] = useUrl();
  const policies = usePolicies();
  const [policyId, action, direction, filter] = ["policyId", "action", "direction", "q"].map(
    (name) => params.get(name) ?? "",
  ) as [string, string, string, string];
  const decisions = useDecisions(policyId);
  const rows = useMemo(() => {
    const matches = matcher(filter);
    return (decisions.data ?? []).filter(
      (each) =>
        (!policyId || each.policyId === policyId) &&
        (!action || each.action === action) &&
        (!direction || each.direction === direction) &&
        matches(each.outcome, each.triggerMetric, ...each.limitedBy),
    );
  }, [decisions.data, policyId, action, direction, filter]);
  const names = new Map((policies.data ?? []).map(({ id, name }) => [id, name]));
  for (const each of decisions.data ?? []) if (!names.has(each.policyId)) names.set(each.policyId, `${each.policyId} (deleted)`);
  if (policyId && !names.has(policyId)) names.set(policyId, policyId);
  const select = (name: string, label: string, value: string, any: string, data: { value: string; label: string }[]) => (
    <NativeSelect
      aria-label={label}
      value={value}
      onChange={(event) => change({ [name]: event.currentTarget.value })}
      data={[{ value: "", label: any }, ...data]}
    />
  );
  return (
    <Stack gap="xs">
      <Chain />
      <Group gap="xs">
        <Search label="Filter decisions" />
        {select("policyId", "Policy", policyId, "Any policy", [...names].map(([value, label]) => ({ value, label })))}
        {select("action", "Action", action, "Any action", Object.entries(ACTIONS).map(([value, label]) => ({ value, label })))}
        {select("direction", "Direction", direction, "Up and down", ["up", "down"].map((value) => ({ value, label: value })))}
      </Group>
      <Loaded
        query={decisions}
        empty={(all) =>
          all.length === 0 &&
          !policyId && <Empty title="Nothing was decided yet">Every change that a policy makes, or would make, stands here.</Empty>
        }
      >
        {(all) => (
          <>
            <Text size="sm" c="dimmed" role="status">
              {count(rows.length)} of {all.length >= DECISIONS_SHOWN ? `the newest ${count(all.length)}` : count(all.length)}
            </Text>
            {rows.length === 0 ? (
              <Empty title="No decision matches">Change the filter.</Empty>
            ) : (
              <DecisionTable decisions={rows} />
            )}
          </>
        )}
      </Loaded>
    </Stack>
  );
}

/** The head of the chain, to be kept elsewhere, and the check of all of it. */
function Chain() {
  const newest = useDecisions("", 1);
  const check = useChange(verify);
  const head = newest.data?.[0];
  const result = check.data;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Chain">
      <Group justify="space-between">
        <Text size="sm" className="title" maw="80%">
          {head ? (
            <>
              Head of the chain: row {head.id}, <Code>{head.hash}</Code>
            </>
          ) : (
            "The chain has no row yet."
          )}
        </Text>
        <Button size="xs" variant="default" loading={check.isPending} onClick={() => check.mutate(undefined)}>
          Verify
        </Button>
      </Group>
      <div role="status">
        {result && (
          <Alert
            mt="xs"
            variant="outline"
            color={result.ok ? "teal" : "red"}
            title={result.ok ? "The chain is whole" : `Row ${result.fault?.id} is not as it was written`}
          >
            {result.ok
              ? `${count(result.rows)} rows; ${count(result.recomputed)} were decided again from their inputs, with the same result.`
              : `${result.fault?.found} Good are the ${count(result.rows)} rows before it.`}
            <Text size="sm" mt="xs">
              What this cannot prove:
            </Text>
            <List size="sm">
              {result.cannotProve.map((text) => (
                <List.Item key={text}>{text}</List.Item>
              ))}
            </List>
          </Alert>
        )}
        {check.error && (
          <Alert mt="xs" variant="outline" color="red">
            {words(check.error)}
          </Alert>
        )}
      </div>
    </Card>
  );
}
