// Rows of the decision log; one opens with all that led to it, under a link of its own.

import { Code, Modal, Stack, Table, Text } from "@mantine/core";
import { useMemo, type ReactNode } from "react";
import { Link } from "react-router";
import type { Decision, Policy } from "../../api/client";
import { DataTable, type Column } from "../../ui/DataTable";
import { fullTime, type Zone } from "../../ui/format";
import { Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { Ago, useZone } from "../../ui/zone";
import { Manifest } from "./Manifest";
import { Action, changeOf, LIMITERS, pathOf, triggerOf, usePolicyName } from "./words";

const limitedBy = ({ limitedBy: names }: Decision) => names.map((name) => LIMITERS[name] ?? name).join(", ");

const columnsOf = (policyName: ((id: string) => string) | null, zone: Zone, open: (id: number) => void): Column<Decision>[] => [
  {
    key: "time",
    label: "Time",
    narrow: true,
    width: "176px",
    value: ({ id }) => id,
    cell: (decision) => (
      <a
        href={`?open=${decision.id}`}
        onClick={(event) => {
          event.preventDefault();
          open(decision.id);
        }}
        title={`Decision ${decision.id}`}
      >
        <span className="wide">{fullTime(Date.parse(decision.ts), zone)}</span>
        <span className="narrow">
          <Ago at={decision.ts} />
        </span>
      </a>
    ),
  },
  ...(policyName
    ? [
        {
          key: "policy",
          label: "Policy",
          width: "15%",
          value: ({ policyId }: Decision) => policyName(policyId),
          cell: ({ policyId }: Decision) => <Link to={pathOf({ id: policyId })}>{policyName(policyId)}</Link>,
        },
      ]
    : []),
  {
    key: "change",
    label: "Change",
    narrow: true,
    width: "112px",
    value: ({ toReplicas }) => toReplicas,
    cell: (decision) => (
      <>
        {changeOf(decision)}{" "}
        <Text span size="xs" c="dimmed">
          {decision.direction}
        </Text>
      </>
    ),
  },
  {
    key: "action",
    label: "Action",
    narrow: true,
    width: "100px",
    value: ({ action }) => action,
    cell: ({ action }) => <Action>{action}</Action>,
  },
  {
    key: "reason",
    label: "Reason",
    cell: ({ outcome }) => <span title={outcome}>{outcome}</span>,
  },
  {
    key: "limited",
    label: "Limited by",
    width: "17%",
    value: limitedBy,
    cell: (decision) => <span title={limitedBy(decision)}>{limitedBy(decision) || "nothing"}</span>,
  },
];

interface Props {
  decisions: Decision[];
  /** Of one policy: then it need not be named in every row. */
  policy?: Policy;
}

export function DecisionTable({ decisions, policy }: Props) {
  const { zone } = useZone();
  const [params, change] = useUrl();
  const policyName = usePolicyName();
  const columns = useMemo(
    () => columnsOf(policy ? null : policyName, zone, (id) => change({ open: `${id}` }, { push: true })),
    [policy, policyName, zone, change],
  );
  const opened = decisions.find(({ id }) => `${id}` === params.get("open"));
  return (
    <>
      <DataTable label="Decisions" rows={decisions} columns={columns} rowKey={({ id }) => `${id}`} />
      {opened && (
        <Modal
          opened
          size="xl"
          title={`Decision ${opened.id}: ${changeOf(opened)}`}
          onClose={() => change({ open: null }, { push: true })}
        >
          <One decision={opened} name={policyName(opened.policyId)} zone={zone} />
        </Modal>
      )}
    </>
  );
}

function One({ decision, name, zone }: { decision: Decision; name: string; zone: Zone }) {
  const rows: [string, ReactNode][] = [
    ["Time", fullTime(Date.parse(decision.ts), zone)],
    [
      "Policy",
      <Link key="policy" to={pathOf({ id: decision.policyId })}>
        {name}
      </Link>,
    ],
    ["Action", <Action key="action">{decision.action}</Action>],
    ["Direction", decision.direction],
    ["Asked for by", triggerOf(decision)],
    ["Reason", decision.outcome],
    ["Limited by", limitedBy(decision) || "nothing"],
    [
      "Decided by",
      decision.decideVersion > 0 ? `version ${decision.decideVersion} of the rule` : <Status key="by">by hand</Status>,
    ],
    ["Hash", <Code key="hash">{decision.hash}</Code>],
    ["Hash of the row before", <Code key="before">{decision.prevHash}</Code>],
  ];
  return (
    <Stack>
      <Table aria-label="Decision" fz="sm" layout="fixed">
        <Table.Tbody>
          {rows.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th scope="row" w={130}>
                {label}
              </Table.Th>
              <Table.Td className="title">{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" fw={600}>
        Manifest
      </Text>
      <Manifest change={decision} />
      <details>
        <summary>
          <Text span size="sm" fw={600}>
            Inputs
          </Text>
        </summary>
        <Code block className="block" tabIndex={0} aria-label="Inputs">
          {JSON.stringify(decision.inputs, null, 2)}
        </Code>
      </details>
    </Stack>
  );
}
