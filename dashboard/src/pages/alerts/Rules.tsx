// The rules: what fires, turned on and off, changed, deleted.

import { Button, Group, Switch, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { useAlerts, useRules } from "../../api/alerts";
import { answer, api, words, type Rule } from "../../api/client";
import { useChange, useMe } from "../../api/queries";
import { Confirm } from "../../ui/Confirm";
import { DataTable, type Column } from "../../ui/DataTable";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { matcher, Search } from "../../ui/Search";
import { Status } from "../../ui/Status";
import { useUrl } from "../../ui/url";
import { limitOf, metricOf, Severity } from "./words";

const COLUMNS: Column<Rule>[] = [
  {
    key: "name",
    label: "Name",
    narrow: true,
    width: "22%",
    value: ({ name }) => name,
    cell: ({ id, name, description }) => (
      <Link to={`/alerts/rules/${id}`} title={description || name}>
        {name}
      </Link>
    ),
  },
  {
    key: "metric",
    label: "Selector",
    value: ({ metric }) => metric,
    cell: ({ metric }) => (
      <Text span ff="monospace" size="xs" title={metric}>
        {metric}
      </Text>
    ),
  },
  {
    key: "limit",
    label: "Fires when",
    narrow: true,
    width: "108px",
    cell: (rule) => limitOf(rule, metricOf(rule.metric)),
  },
  {
    key: "severity",
    label: "Severity",
    width: "92px",
    value: ({ severity }) => severity,
    cell: ({ severity }) => <Severity>{severity}</Severity>,
  },
];

export function Rules() {
  const rules = useRules();
  const firing = useAlerts("firing");
  const me = useMe();
  const [params] = useUrl();
  const [doomed, doom] = useState<Rule | null>(null);
  const enable = useChange(
    ({ id, enabled }: { id: string; enabled: boolean }) =>
      answer(api.PUT("/api/v1/alerts/rules/{id}", { params: { path: { id } }, body: { enabled } as never })),
    "rules",
    "alerts",
  );
  const remove = useChange(
    (id: string) => answer(api.DELETE("/api/v1/alerts/rules/{id}", { params: { path: { id } } })),
    "rules",
    "alerts",
  );
  const mayChange = me.data?.role !== "viewer";
  const toggle = enable.mutate;
  const columns = useMemo(() => {
    const open = new Map<string, number>();
    for (const { ruleId } of firing.data ?? []) open.set(ruleId, (open.get(ruleId) ?? 0) + 1);
    return [
      ...COLUMNS,
      {
        key: "firing",
        label: "Firing",
        numeric: true,
        width: "80px",
        value: ({ id }) => open.get(id) ?? 0,
        cell: ({ id }) =>
          open.has(id) ? <Link to={`/alerts?state=firing&rule=${id}`}>{count(open.get(id)!)}</Link> : "0",
      },
      {
        key: "enabled",
        label: "Enabled",
        narrow: true,
        width: "96px",
        value: ({ enabled }) => Number(enabled),
        cell: ({ id, name, enabled }) =>
          mayChange ? (
            <Switch
              size="xs"
              checked={enabled}
              aria-label={`${name}: enabled`}
              onChange={(event) =>
                toggle(
                  { id, enabled: event.currentTarget.checked },
                  { onError: (error) => notifications.show({ color: "red", message: words(error) }) },
                )
              }
            />
          ) : (
            <Status>{enabled ? "enabled" : "disabled"}</Status>
          ),
      },
      ...(mayChange
        ? [
            {
              key: "actions",
              label: "",
              numeric: true,
              width: "140px",
              cell: (rule: Rule) => (
                <Group gap={6} wrap="nowrap" justify="flex-end">
                  <Button
                    component={Link}
                    to={`/alerts/rules/${rule.id}`}
                    size="compact-xs"
                    variant="default"
                    aria-label={`Edit ${rule.name}`}
                  >
                    Edit
                  </Button>
                  <Button
                    size="compact-xs"
                    variant="default"
                    onClick={() => doom(rule)}
                    aria-label={`Delete ${rule.name}`}
                  >
                    Delete
                  </Button>
                </Group>
              ),
            },
          ]
        : []),
    ] satisfies Column<Rule>[];
  }, [firing.data, mayChange, toggle]);
  const matches = matcher(params.get("q") ?? "");
  return (
    <>
      <Group gap="xs" mb="xs">
        <Search label="Filter rules" />
      </Group>
      <Loaded
        query={rules}
        empty={(all) =>
          all.length === 0 && (
            <Empty
              title="No rules yet"
              action={mayChange && <Link to="/alerts/rules/new">Make one, or begin with a template</Link>}
            >
              A rule watches the series of one selector and fires for each that is beyond a threshold.
            </Empty>
          )
        }
      >
        {(all) => (
          <DataTable
            label="Rules"
            rows={all.filter(({ name, metric, severity, description }) => matches(name, metric, severity, description))}
            columns={columns}
            rowKey={({ id }) => id}
          />
        )}
      </Loaded>
      {doomed && (
        <Confirm
          title={`Delete the rule ${doomed.name}?`}
          verb="Delete"
          action={() => remove.mutateAsync(doomed.id)}
          onClose={() => doom(null)}
        >
          <Text>Its open alerts are resolved, and stay in the list.</Text>
        </Confirm>
      )}
    </>
  );
}
