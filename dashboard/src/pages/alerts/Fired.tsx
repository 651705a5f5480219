// The newest alerts, filtered by the URL.

import { Group, NativeSelect, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "react-router";
import { ALERTS_SHOWN, useAlerts } from "../../api/alerts";
import type { Alert } from "../../api/client";
import { useMe } from "../../api/queries";
import { DataTable, type Column } from "../../ui/DataTable";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { matcher, Search } from "../../ui/Search";
import { Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { Ago } from "../../ui/zone";
import { Answering } from "./Answering";
import { limitOf, pathOf, Resource, Severity, State, valueOf } from "./words";

const STATES: Alert["state"][] = ["firing", "acknowledged", "resolved"];
const ORDER: Record<string, number> = { firing: 0, acknowledged: 1, resolved: 2 };

const COLUMNS: Column<Alert>[] = [
  {
    key: "rule",
    label: "Rule",
    narrow: true,
    width: "19%",
    value: ({ ruleName }) => ruleName,
    cell: (alert) => (
      <>
        <span className="narrow">
          <Status dot>{alert.state}</Status>
        </span>
        <Link to={pathOf(alert)} title={alert.message}>
          {alert.ruleName}
        </Link>
      </>
    ),
  },
  {
    key: "state",
    label: "State",
    width: "138px",
    value: ({ state }) => ORDER[state] ?? 3,
    cell: (alert) => <State alert={alert} />,
  },
  {
    key: "resource",
    label: "Resource",
    narrow: true,
    value: ({ resourceName }) => resourceName,
    cell: (alert) => <Resource alert={alert} />,
  },
  {
    key: "value",
    label: "Value",
    width: "124px",
    cell: (alert) => (
      <>
        {valueOf(alert)}{" "}
        <Text span size="xs" c="dimmed">
          {limitOf(alert, alert.metric.__name__ ?? "")}
        </Text>
      </>
    ),
  },
  {
    key: "severity",
    label: "Severity",
    width: "92px",
    value: ({ severity }) => severity,
    cell: ({ severity }) => <Severity>{severity}</Severity>,
  },
  {
    key: "fired",
    label: "Fired",
    narrow: true,
    width: "88px",
    value: ({ firedAt }) => firedAt,
    cell: ({ firedAt }) => <Ago at={firedAt} />,
  },
];
const ACTIONS: Column<Alert> = {
  key: "actions",
  label: "",
  numeric: true,
  width: "212px",
  cell: (alert) => <Answering alert={alert} size="compact-xs" />,
};

export function Fired() {
  const [params, change] = useUrl();
  const me = useMe();
  const given = params.get("state") as Alert["state"] | null;
  const state = given && STATES.includes(given) ? given : undefined;
  const [severity, rule, filter] = ["severity", "rule", "q"].map((name) => params.get(name) ?? "");
  const alerts = useAlerts(state);
  const rows = useMemo(() => {
    const matches = matcher(filter!);
    return (alerts.data ?? []).filter(
      (alert) =>
        (!state || alert.state === state) && // while another state is asked for, the old answer is still there
        (!severity || alert.severity === severity) &&
        (!rule || alert.ruleId === rule) &&
        matches(alert.ruleName, alert.resourceName, alert.resourceType, alert.message, alert.comment),
    );
  }, [alerts.data, state, severity, rule, filter]);
  const severities = [...new Set([...(alerts.data ?? []).map((alert) => alert.severity), ...(severity ? [severity] : [])])];
  const rules = new Map((alerts.data ?? []).map(({ ruleId, ruleName }) => [ruleId, ruleName]));
  if (rule && !rules.has(rule)) rules.set(rule, rule);
  const select = (name: string, label: string, value: string, any: string, data: { value: string; label: string }[]) => (
    <NativeSelect
      aria-label={label}
      value={value}
      onChange={(event) => change({ [name]: event.currentTarget.value })}
      data={[{ value: "", label: any }, ...data]}
    />
  );
  return (
    <>
      <Group gap="xs" mb="xs">
        <Search label="Filter alerts" />
        {select("state", "State", state ?? "", "Any state", STATES.map((value) => ({ value, label: value })))}
        {select("severity", "Severity", severity!, "Any severity", severities.sort().map((value) => ({ value, label: value || "none" })))}
        {select("rule", "Rule", rule!, "Any rule", [...rules].map(([value, label]) => ({ value, label })))}
      </Group>
      <Loaded
        query={alerts}
        empty={(all) =>
          all.length === 0 &&
          !state && (
            <Empty title="No alert has fired" action={<Link to="/alerts/rules">Rules</Link>}>
              A rule fires with the push that makes its condition true.
            </Empty>
          )
        }
      >
        {(all) => (
          <>
            <Text size="sm" c="dimmed" role="status" mb={4}>
              {count(rows.length)} of {all.length >= ALERTS_SHOWN ? `the newest ${count(all.length)}` : count(all.length)}
            </Text>
            {rows.length === 0 ? (
              <Empty title="No alert matches">Change the filter or the state.</Empty>
            ) : (
              <DataTable
                label="Alerts"
                rows={rows}
                columns={me.data?.role === "viewer" ? COLUMNS : [...COLUMNS, ACTIONS]}
                rowKey={({ id }) => id}
              />
            )}
          </>
        )}
      </Loaded>
    </>
  );
}
