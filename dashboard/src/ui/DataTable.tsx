// A table of any length: only what is visible is drawn.  Order and groups come from the URL.

import { Text, UnstyledButton } from "@mantine/core";
import { memo, useDeferredValue, useMemo, type ReactNode } from "react";
import { TableVirtuoso, type TableComponents } from "react-virtuoso";
import { useUrl } from "./url";

export interface Column<T> {
  key: string;
  label: string;
  cell: (row: T) => ReactNode;
  /** What rows are ordered by; a column without it cannot be sorted by. */
  value?: (row: T) => string | number;
  /** A number: right-aligned, largest first. */
  numeric?: boolean;
  /** Also on a narrow screen. */
  narrow?: boolean;
  /** Share of the width. */
  width?: string;
}

interface Props<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  rowKey: (row: T) => string;
  /** The group of a row, when rows are grouped. */
  groupOf?: ((row: T) => string) | undefined;
}

type Line<T> = { group: string; count: number } | { row: T };

const DIGITS = 15; // of a number inside a name that is ordered as a number

/** Return what orders a text as people do, `web-2` before `web-10`; ten times faster than a collator. */
const orderOf = (value: string | number) =>
  typeof value === "number" ? value : value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0"));
const compare = <V extends string | number>(a: V, b: V) => (a < b ? -1 : a > b ? 1 : 0);

/** The column and direction that `sort` of the URL says: `name`, or `-cpu` for largest first. */
function useOrder<T>(columns: Column<T>[]) {
  const [params, change] = useUrl();
  const text = params.get("sort") ?? "";
  const descending = text.startsWith("-");
  const column = columns.find(({ key, value }) => value && key === text.replace(/^-/, ""));
  const toggle = ({ key, numeric }: Column<T>) => {
    const first = numeric ? `-${key}` : key;
    const second = numeric ? key : `-${key}`;
    change({ sort: text === first ? second : text === second ? null : first });
  };
  return { column, descending, toggle };
}

export function DataTable<T>({ label, rows, columns, rowKey, groupOf }: Props<T>) {
  const { column, descending, toggle } = useOrder(columns);
  const shown = useDeferredValue(rows);
  const value = column?.value;
  const lines = useMemo(() => linesOf(shown, value, descending, groupOf), [shown, value, descending, groupOf]);
  return (
    <TableVirtuoso
      useWindowScroll
      data={lines}
      components={PARTS as TableComponents<Line<T>, { label: string; total: number }>}
      context={{ label, total: lines.length }}
      computeItemKey={(_, line) => ("row" in line ? rowKey(line.row) : `group ${line.group}`)}
      increaseViewportBy={200}
      fixedHeaderContent={() => (
        <tr>
          {columns.map((each) => (
            <th
              key={each.key}
              scope="col"
              className={each === columns[0] ? "first" : classOf(each)}
              style={each.width ? { width: each.width } : undefined}
              aria-sort={each === column ? (descending ? "descending" : "ascending") : undefined}
            >
              {each.value ? (
                <UnstyledButton className="sort" onClick={() => toggle(each)}>
                  {each.label}
                  <span aria-hidden>{each === column ? (descending ? " ▾" : " ▴") : ""}</span>
                </UnstyledButton>
              ) : (
                each.label
              )}
            </th>
          ))}
        </tr>
      )}
      itemContent={(_, line) =>
        "row" in line ? (
          <Cells row={line.row} columns={columns as Column<unknown>[]} />
        ) : (
          <th colSpan={columns.length} scope="colgroup" className="group">
            {line.group || "none"} <Text span c="dimmed" size="sm">{line.count}</Text>
          </th>
        )
      }
    />
  );
}

const Cells = memo(function Cells({ row, columns }: { row: unknown; columns: Column<unknown>[] }) {
  return columns.map((column) => (
    <td key={column.key} className={classOf(column)}>
      {column.cell(row)}
    </td>
  ));
});

const classOf = (column: Column<never>) =>
  [column.numeric && "numeric", !column.narrow && "wide"].filter(Boolean).join(" ");

const PARTS: TableComponents<unknown, { label: string; total: number }> = {
  Table: ({ context, ...rest }) => (
    <table className="data" aria-label={context.label} aria-rowcount={context.total + 1} {...rest} />
  ),
};

function linesOf<T>(
  rows: T[],
  value: ((row: T) => string | number) | undefined,
  descending: boolean,
  groupOf: ((row: T) => string) | undefined,
): Line<T>[] {
  const sign = descending ? -1 : 1;
  const keyed = value ? rows.map((row) => ({ row, key: orderOf(value(row)) })) : null;
  const sorted = keyed
    ? keyed.sort((a, b) => sign * compare(a.key, b.key)).map(({ row }) => row)
    : rows;
  if (!groupOf) return sorted.map((row) => ({ row }));
  const groups = new Map<string, T[]>();
  for (const row of sorted) {
    const name = groupOf(row);
    const group = groups.get(name);
    group ? group.push(row) : groups.set(name, [row]);
  }
  return [...groups]
    .sort(([a], [b]) => compare(orderOf(a), orderOf(b)))
    .flatMap(([group, members]): Line<T>[] => [
      { group, count: members.length },
      ...members.map((row) => ({ row })),
    ]);
}
