// Log lines one below the other: time, where from, message.  A line opens to all that is known of it.

import { Button, Code, Group, Text, VisuallyHidden } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { memo, useState, type ReactNode } from "react";
import { Link } from "react-router";
import type { LogLine } from "../../api/client";
import { useAgents } from "../../api/queries";
import { CopyButton } from "../../ui/Copy";
import { fullTime, type Zone } from "../../ui/format";
import { useAgentName } from "../containers/Containers";
import { pathOf as podPathOf } from "../pods/paths";
import { plain } from "./ansi";
import { filtersOf, pathOf, pathOfLine, sourceOf } from "./filters";
import { Message } from "./Message";

/** Return a line's time to the millisecond: `2026-11-21 01:40:32.075`. */
export function shortTime(time: string, zone: Zone): string {
  return `${fullTime(Date.parse(time), zone).slice(0, 19)}.${/\.(\d{3})/.exec(time)?.[1] ?? "000"}`;
}

interface RowProps {
  time: ReactNode;
  source: string;
  /** A colour that tells this source from others, by number. */
  tone?: number | undefined;
  stream: string;
  children: ReactNode;
}

/** The look of a line, wherever it is shown. */
export function Row({ time, source, tone, stream, children }: RowProps) {
  return (
    <div className={stream === "stderr" ? "line stderr" : "line"}>
      {time}
      <span className={tone === undefined ? "source" : `source tone-${tone}`} title={source}>
        {source}
      </span>
      <span className="message">
        {stream === "stderr" && <VisuallyHidden>stderr: </VisuallyHidden>}
        {children}
      </span>
    </div>
  );
}

interface LineProps {
  line: LogLine;
  zone: Zone;
  marks?: RegExp | null;
  open: boolean;
  onToggle: (id: string) => void;
  /** Shows the lines around it; without it there is no button for that. */
  onAround?: (id: string) => void;
}

/** A found line; its time opens and closes it. */
export const FoundLine = memo(function FoundLine({ line, zone, marks, open, onToggle, onAround }: LineProps) {
  return (
    <>
      <Row
        time={
          <button type="button" className="time" aria-expanded={open} onClick={() => onToggle(line.id)}>
            <span aria-hidden>{open ? "▾" : "▸"}</span> <time dateTime={line.time}>{shortTime(line.time, zone)}</time>
          </button>
        }
        source={sourceOf(line)}
        stream={line.stream}
      >
        <Message text={line.message} marks={marks ?? null} />
      </Row>
      {open && <Details line={line} marks={marks ?? null} {...(onAround && { onAround })} />}
    </>
  );
});

type DetailsProps = Pick<LineProps, "line" | "onAround"> & { marks: RegExp | null };

function Details({ line, marks, onAround }: DetailsProps) {
  const agents = useAgents();
  const agentName = useAgentName(agents.data);
  const from = filtersOf(line);
  const page =
    line.source === "docker"
      ? `/containers/${line.agentId}/${encodeURIComponent(line.containerId)}`
      : podPathOf({ ...line, name: line.pod });
  const rows: [string, ReactNode][] = [
    ["Time", line.time],
    ["Stream", line.stream],
    ["Agent", agentName(line.agentId)],
    ...(line.source === "docker"
      ? ([
          ["Container", <Link to={page}>{line.container || line.containerId}</Link>],
          ["Container id", <span title={line.containerId}>{line.containerId.slice(0, 12)}</span>],
        ] as [string, ReactNode][])
      : ([
          ["Namespace", line.namespace],
          ["Pod", <Link to={page}>{line.pod}</Link>],
          ["Container", line.container || "–"],
        ] as [string, ReactNode][])),
    ...(line.truncated ? ([["Cut", "It was longer than 64 KiB."]] as [string, ReactNode][]) : []),
  ];
  return (
    <div className="details">
      <dl>
        {rows.map(([label, value]) => (
          <div key={label}>
            <Text component="dt" size="xs" c="dimmed">
              {label}
            </Text>
            <Text component="dd" size="sm" m={0}>
              {value}
            </Text>
          </div>
        ))}
      </dl>
      <Code block className="whole" tabIndex={0} aria-label="The whole message">
        <Message text={line.message} marks={marks} whole />
      </Code>
      <Group gap="xs">
        <CopyButton text={plain(line.message)}>Copy message</CopyButton>
        <CopyButton text={JSON.stringify(line, null, 2)}>Copy JSON</CopyButton>
        <CopyButton text={`${location.origin}${pathOfLine(line.id)}`}>Copy link</CopyButton>
        {onAround && (
          <Button size="xs" variant="default" onClick={() => onAround(line.id)}>
            Lines around it
          </Button>
        )}
        <Button size="xs" variant="default" component={Link} to={pathOf(from)}>
          Only this {line.source === "docker" ? "container" : "pod"}
        </Button>
      </Group>
    </div>
  );
}

/** Which lines are open; a function that opens and closes one. */
export function useOpen() {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [toggle] = useState(() => (id: string) => {
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  });
  return [open, toggle] as const;
}

/** Whether long lines are wrapped: as the reader has chosen, on every page with lines. */
export function useWrap() {
  return useLocalStorage({ key: "wrap", defaultValue: true, getInitialValueInEffect: false });
}
