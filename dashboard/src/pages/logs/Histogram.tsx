// How many lines there are over time, by stream.  Drag to zoom; the numbers stand in a table behind a button.

import { Anchor, Button, Group, ScrollArea, Table, Text } from "@mantine/core";
import { useRef, useState, type PointerEvent } from "react";
import type { Histogram as Counts } from "../../api/client";
import { count, duration, fullTime } from "../../ui/format";
import { useZone } from "../../ui/zone";

const HEIGHT = 72; // CSS pixels
const GAP = 0.15; // of an interval, between two bars

interface Props {
  counts: Counts;
  onZoom: (from: number, to: number) => void;
}

export function Histogram({ counts, onZoom }: Props) {
  const { zone } = useZone();
  const [asTable, setAsTable] = useState(false);
  const { buckets, intervalSeconds } = counts;
  const time = (index: number) => fullTime(Date.parse(buckets[index]!.time), zone);
  const zoom = (first: number, last: number) => {
    const from = Date.parse(buckets[first]!.time) / 1000;
    onZoom(from, from + (last - first + 1) * intervalSeconds);
  };
  return (
    <figure className="chart" aria-label="Lines over time">
      <Group justify="space-between" mb={4} wrap="nowrap" align="flex-start">
        <Group component="figcaption" gap="xs">
          <Text size="sm" fw={600}>
            {count(counts.count)} lines
          </Text>
          <Text size="xs" c="dimmed" className="by">
            by {duration(intervalSeconds)}
          </Text>
          <span className="key stdout">stdout</span>
          <span className="key stderr">stderr</span>
        </Group>
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
      {asTable ? (
        <Numbers counts={counts} time={time} zoom={zoom} />
      ) : (
        <>
          <Bars counts={counts} time={time} zoom={zoom} />
          {buckets.length > 0 && (
            <Group justify="space-between" className="ticks" aria-hidden>
              <span>{time(0)}</span>
              <span>{time(buckets.length - 1)}</span>
            </Group>
          )}
        </>
      )}
    </figure>
  );
}

interface PartProps {
  counts: Counts;
  time: (index: number) => string;
  zoom: (first: number, last: number) => void;
}

function Bars({ counts: { buckets }, time, zoom }: PartProps) {
  const place = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const most = Math.max(1, ...buckets.map(({ stdout, stderr }) => stdout + stderr));
  const at = ({ clientX }: PointerEvent) => {
    const box = place.current!.getBoundingClientRect();
    const index = Math.floor(((clientX - box.left) / box.width) * buckets.length);
    return Math.min(buckets.length - 1, Math.max(0, index));
  };
  const [first, last] = drag ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : [0, -1];
  const shown = over === null ? undefined : buckets[over];
  return (
    <div className="bars" aria-hidden>
      <svg
        ref={place}
        width="100%"
        height={HEIGHT}
        viewBox={`0 0 ${Math.max(1, buckets.length)} ${most}`}
        preserveAspectRatio="none"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag({ from: at(event), to: at(event) });
        }}
        onPointerMove={(event) => {
          setOver(at(event));
          if (drag) setDrag({ ...drag, to: at(event) });
        }}
        onPointerLeave={() => setOver(null)}
        onPointerCancel={() => setDrag(null)}
        onPointerUp={() => {
          setDrag(null);
          if (drag) zoom(first, last);
        }}
      >
        <rect x={0} y={0} width={buckets.length} height={most} fill="transparent" />
        {buckets.map(({ time: key, stdout, stderr }, index) => (
          <g key={key}>
            <rect className="stdout" x={index + GAP / 2} width={1 - GAP} y={most - stdout} height={stdout} />
            <rect className="stderr" x={index + GAP / 2} width={1 - GAP} y={most - stdout - stderr} height={stderr} />
          </g>
        ))}
        {drag && <rect className="chosen" x={first} width={last - first + 1} y={0} height={most} />}
      </svg>
      {shown && (
        <div className="tip" style={{ left: `${((over! + 0.5) / buckets.length) * 100}%` }}>
          {time(over!)}: {count(shown.stdout)} stdout, {count(shown.stderr)} stderr
        </div>
      )}
    </div>
  );
}

function Numbers({ counts: { buckets }, time, zoom }: PartProps) {
  return (
    <ScrollArea h={HEIGHT + 120} viewportProps={{ tabIndex: 0, "aria-label": "Lines by time", role: "region" }}>
      <Table stickyHeader aria-label="Lines over time" fz="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">From</Table.Th>
            <Table.Th scope="col" ta="right">
              stdout
            </Table.Th>
            <Table.Th scope="col" ta="right">
              stderr
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {Array.from(buckets.keys())
            .reverse()
            .map((index) => (
              <Table.Tr key={index}>
                <Table.Td>
                  <Anchor component="button" type="button" size="xs" onClick={() => zoom(index, index)}>
                    {time(index)}
                  </Anchor>
                </Table.Td>
                <Table.Td ta="right">{count(buckets[index]!.stdout)}</Table.Td>
                <Table.Td ta="right">{count(buckets[index]!.stderr)}</Table.Td>
              </Table.Tr>
            ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
