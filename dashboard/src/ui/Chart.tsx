// Lines over time.  Drag to zoom; every chart has its numbers as a table behind a button.

import { Button, Group, ScrollArea, Table, Text, useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Window } from "../api/queries";
import { bytes, bytesPerSecond, fullTime, type Zone } from "./format";
import { useZone } from "./zone";

export interface Line {
  label: string;
  /** Points of unix seconds and value. */
  values: readonly (readonly number[])[];
  /** A limit and no measurement: dashed, in a colour of its own. */
  limit?: boolean;
}

/** A limit that is the same all the time. */
export const limitLine = (label: string, { start, end, step }: Window, value: number): Line => ({
  label,
  limit: true,
  values: Array.from({ length: Math.floor((end - start) / step) + 1 }, (_, index) => [start + index * step, value]),
});

interface Props {
  title: string;
  window: Window;
  lines: Line[];
  format: (value: number) => string;
  onZoom: (from: number, to: number) => void;
  height?: number;
  /** Spans of time, in unix seconds, that are shaded. */
  bands?: readonly (readonly [from: number, to: number])[];
}

const SHOWN_LINES = 50; // more cannot be told apart, nor drawn without a pause
const TABLE_LINES = 12; // more columns cannot be read
const LEGEND_LINES = 12;
// Distinct for colour-blind readers too (Okabe and Ito), dark enough on white or light enough on black.
const COLOURS = {
  light: ["#0072b2", "#b84a00", "#00795a", "#9b3d78", "#7a5c00", "#1c7ab0", "#333333"],
  dark: ["#56b4e9", "#ff9d4d", "#2fd0a5", "#e08cc0", "#f0e442", "#8fb8ff", "#dddddd"],
};
const LIMIT = { light: "#c92a2a", dark: "#ff8787" };
const BAND = { light: "rgba(201, 42, 42, 0.13)", dark: "rgba(255, 135, 135, 0.2)" };
const LEAST_BAND_PX = 2; // a shorter one could not be seen
const GRID = { light: "#e3e6ea", dark: "#3a3f47" };
const TEXT = { light: "#495057", dark: "#c1c2c5" };
// Round numbers of bytes are powers of two.
const BYTE_STEPS = Array.from({ length: 54 }, (_, power) => 2 ** power);
const AXIS_FONT = "12px system-ui, sans-serif";

/** Return the grid of times and, for each line, its values on it; null where there is none. */
function aligned({ start, end, step }: Window, lines: Line[]): uPlot.AlignedData {
  const points = Math.max(1, Math.floor((end - start) / step) + 1);
  const times = Array.from({ length: points }, (_, index) => start + index * step);
  const columns = lines.map(({ values }) => {
    const column = new Array<number | null>(points).fill(null);
    for (const [at, value] of values) column[Math.round((at! - start) / step)] = value!;
    return column;
  });
  return [times, ...columns];
}

function optionsOf(
  lines: Line[],
  window: Window,
  scheme: "light" | "dark",
  zone: Zone,
  format: Props["format"],
  zoom: { current: Props["onZoom"] },
  present: { current: { bands: NonNullable<Props["bands"]> } },
): Omit<uPlot.Options, "width" | "height"> {
  const axis = { stroke: TEXT[scheme], font: AXIS_FONT, grid: { stroke: GRID[scheme], width: 1 }, ticks: { show: false } };
  const zoned = (at: number) => (zone === "UTC" ? uPlot.tzDate(new Date(at * 1000), "UTC") : new Date(at * 1000));
  return {
    tzDate: zoned,
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    legend: { show: lines.length <= LEGEND_LINES, live: true },
    scales: {
      x: { range: () => [window.start, window.end] },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? (high ?? 0) * 1.08 : 1] },
    },
    axes: [
      { ...axis, space: 70, values: DATES },
      {
        ...axis,
        size: 74,
        values: (_, ticks) => ticks.map(format),
        ...((format === bytes || format === bytesPerSecond) && { incrs: BYTE_STEPS }),
      },
    ],
    series: [
      { label: "Time", value: (_, at) => (at == null ? "–" : fullTime(at * 1000, zone)) },
      ...lines.map(({ label, limit }, index) => ({
        label,
        stroke: limit ? LIMIT[scheme] : COLOURS[scheme][index % COLOURS[scheme].length]!,
        width: 1.5,
        spanGaps: false,
        ...(limit && { dash: [6, 4], points: { show: false } }),
        ...(lines.filter((line) => !line.limit).length === 1 && !limit && { fill: `${COLOURS[scheme][0]!}22` }),
        value: (_: uPlot, value: number | null) => (value == null ? "–" : format(value)),
      })),
    ],
    hooks: {
      drawClear: [
        ({ ctx, bbox, valToPos }) => {
          ctx.fillStyle = BAND[scheme];
          for (const [from, to] of present.current.bands) {
            const [left, right] = [from, to].map((at) =>
              Math.min(bbox.left + bbox.width, Math.max(bbox.left, valToPos(at, "x", true))),
            ) as [number, number];
            ctx.fillRect(left, bbox.top, Math.max(LEAST_BAND_PX, right - left), bbox.height);
          }
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 5) return; // a click that slipped
          zoom.current(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        },
      ],
    },
  };
}

// uPlot's own time axis with a 24-hour clock.
const DATES: uPlot.Axis.Values = [
  [86_400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
  [3_600, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [60, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

const NO_BANDS: NonNullable<Props["bands"]> = [];

export function Chart({ title, window, lines, format, onZoom, height = 200, bands = NO_BANDS }: Props) {
  const [asTable, setAsTable] = useState(false);
  const shown = useMemo(() => lines.slice(0, SHOWN_LINES), [lines]);
  return (
    <figure className="chart" aria-label={title}>
      <Group justify="space-between" mb={4} wrap="nowrap">
        <Text component="figcaption" fw={600} size="sm">
          {title}
        </Text>
        <Button
          size="compact-xs"
          variant="default"
          className="fixed"
          aria-pressed={asTable}
          onClick={() => setAsTable(!asTable)}
        >
          Table
        </Button>
      </Group>
      {lines.length === 0 ? (
        <Text c="dimmed" size="sm" py="md">
          No samples in this range.
        </Text>
      ) : asTable ? (
        <Values title={title} window={window} lines={shown.slice(0, TABLE_LINES)} format={format} height={height} />
      ) : (
        <Plot window={window} lines={shown} format={format} onZoom={onZoom} height={height} bands={bands} />
      )}
      {lines.length > shown.length && (
        <Text c="dimmed" size="sm">
          The first {shown.length} of {lines.length} series are drawn.
        </Text>
      )}
    </figure>
  );
}

function Plot({ window, lines, format, onZoom, height, bands }: Required<Omit<Props, "title">>) {
  const scheme = useComputedColorScheme("light");
  const { zone } = useZone();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const present = useRef({ window, lines, bands });
  present.current = { window, lines, bands };
  const labels = JSON.stringify(lines.map(({ label, limit }) => [label, limit]));

  // A new plot only when what it is made of changes; new values go into the one that is there.
  useEffect(() => {
    const element = place.current!;
    const { lines: current } = present.current;
    const options = optionsOf(current, window, scheme, zone, format, zoom, present);
    options.scales!.x!.range = () => [present.current.window.start, present.current.window.end];
    const made = new uPlot(
      { ...options, width: element.clientWidth || 300, height },
      aligned(present.current.window, current),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // The window is read when values are set.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [labels, scheme, zone, format, height]);

  useEffect(() => {
    const made = plot.current;
    if (!made || made.series.length !== lines.length + 1) return;
    made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    made.setData(aligned(window, lines));
  }, [window, lines, bands]);

  return <div ref={place} className="plot" aria-hidden />;
}

function Values({ title, window, lines, format, height }: Required<Omit<Props, "onZoom" | "bands">>) {
  const { zone } = useZone();
  const [times, ...columns] = useMemo(() => aligned(window, lines), [window, lines]);
  const newestFirst = Array.from(times.keys()).reverse();
  return (
    <ScrollArea h={height + 60} viewportProps={{ tabIndex: 0, "aria-label": `${title}: values`, role: "region" }}>
      <Table stickyHeader aria-label={title} fz="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">Time</Table.Th>
            {lines.map(({ label }) => (
              <Table.Th key={label} scope="col" ta="right">
                {label}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {newestFirst
            .filter((index) => columns.some((column) => column[index] != null))
            .map((index) => (
              <Table.Tr key={index}>
                <Table.Td>{fullTime(times[index]! * 1000, zone)}</Table.Td>
                {columns.map((column, place) => (
                  <Table.Td key={place} ta="right">
                    {column[index] == null ? "–" : format(column[index])}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
