// The live tail: what containers and pods write now, in the order of its arrival.

import { Button, Card, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Link } from "react-router";
import { Virtuoso, type Components, type VirtuosoHandle } from "react-virtuoso";
import { count } from "../../ui/format";
import { Empty } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { Search } from "../../ui/Search";
import { useUrl } from "../../ui/url";
import { useZone } from "../../ui/zone";
import { Row as LineRow, shortTime, useWrap } from "../logs/Lines";
import "../logs/logs.css";
import { Message } from "../logs/Message";
import { Feed, type Row } from "./feed";
import { Picker } from "./Picker";
import { Source } from "./Source";
import "./tail.css";
import { onOf, streamPathOf, targetsOf, textOf, type Target } from "./targets";

const TAILS = ["0", "100", "1000", "10000"]; // lines of before; the API takes up to 10,000
const DEFAULT_TAIL = "100";
const SINCE: [seconds: string, label: string][] = [
  ["", "Any age"],
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
];
const UP_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);
const AT_BOTTOM = 8; // CSS pixels that are as good as none

export default function Tail() {
  const [params, change] = useUrl();
  const on = params.get("on") ?? "";
  const filter = params.get("q") ?? "";
  const tail = TAILS.includes(params.get("tail") ?? "") ? params.get("tail")! : DEFAULT_TAIL;
  const since = SINCE.some(([value]) => value === params.get("since")) ? params.get("since")! : "";
  const targets = useMemo(() => targetsOf(on), [on]);
  const [feed] = useState(() => new Feed());
  useEffect(() => feed.filter(filter), [feed, filter]);
  useEffect(() => feed.clear(), [feed, tail, since]);
  const [refused, setRefused] = useState<string | null>(null);
  useEffect(() => setRefused(null), [on]);
  const tones = useTones(targets);
  return (
    <Page title="Live tail" tools={<Search label="Filter lines" />}>
      <Stack gap="sm">
        <Group gap="xs" align="flex-end" className="choices">
          <Picker targets={targets} onChange={(next) => change({ on: onOf(next) || null }, { push: true })} />
          <NativeSelect
            label="Earlier lines"
            value={tail}
            onChange={(event) => change({ tail: event.currentTarget.value })}
            data={TAILS.map((value) => ({ value, label: value === "0" ? "None" : `Last ${count(Number(value))}` }))}
          />
          <NativeSelect
            label="Not older than"
            value={since}
            onChange={(event) => change({ since: event.currentTarget.value || null })}
            data={SINCE.map(([value, label]) => ({ value, label }))}
          />
        </Group>
        {targets.length === 0 ? (
          <Empty title="Nothing is followed yet">
            Choose containers or pods above. What they write is shown as it comes, from their agents directly.
          </Empty>
        ) : refused ? (
          <Card withBorder padding="lg">
            <Empty title={refused} action={<Link to="/logs">Log search</Link>}>
              The search over stored logs is on every plan.
            </Empty>
          </Card>
        ) : (
          <>
            <Group gap="xs" component="ul" className="sources" aria-label="Followed">
              {targets.map((target) => (
                <Source
                  key={textOf(target)}
                  target={target}
                  tone={tones.get(textOf(target)) ?? 0}
                  path={streamPathOf(target, Number(tail), Number(since))}
                  feed={feed}
                  onRefused={setRefused}
                />
              ))}
            </Group>
            <Lines feed={feed} filter={filter} />
          </>
        )}
      </Stack>
    </Page>
  );
}

/** A colour for each target, by number, that it keeps while it is followed. */
function useTones(targets: Target[]): Map<string, number> {
  const given = useRef(new Map<string, number>());
  return useMemo(() => {
    const texts = targets.map(textOf);
    for (const text of given.current.keys()) if (!texts.includes(text)) given.current.delete(text);
    for (const text of texts) {
      if (given.current.has(text)) continue;
      const taken = new Set(given.current.values());
      let tone = 0;
      while (taken.has(tone)) tone += 1;
      given.current.set(text, tone);
    }
    return new Map(given.current);
  }, [targets]);
}

function Lines({ feed, filter }: { feed: Feed; filter: string }) {
  const { rows, kept, behind, isFull } = useSyncExternalStore(feed.watch, feed.present);
  const [paused, setPaused] = useState(false);
  const [reading, setReading] = useState(false); // scrolled up
  const [wrap, setWrap] = useWrap();
  const { zone } = useZone();
  const list = useRef<VirtuosoHandle>(null);
  const held = paused || reading;
  useEffect(() => {
    feed.hold(held);
    if (!held) list.current?.scrollToIndex({ index: "LAST", align: "end" });
  }, [feed, held]);
  const read = useCallback(
    (next: boolean) => {
      if (next) feed.hold(true); // at once, or the next frame would scroll back
      setReading(next);
    },
    [feed],
  );
  const scroller = useScroller(read);
  const latest = () => {
    setPaused(false);
    setReading(false);
  };
  return (
    <div>
      <Group justify="space-between" mb={4} gap="xs">
        <Text size="sm" c="dimmed">
          {filter ? `${count(rows.length)} of ${count(kept)} lines` : `${count(kept)} lines`}
          {isFull && ", older ones are gone"}
        </Text>
        <Group gap="xs">
          <Button size="xs" variant={paused ? "filled" : "default"} aria-pressed={paused} onClick={() => setPaused(!paused)}>
            {paused ? "Continue" : "Pause"}
          </Button>
          <Button size="xs" variant="default" onClick={() => feed.clear()}>
            Clear
          </Button>
          <Button size="xs" variant={wrap ? "filled" : "default"} aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
            Wrap
          </Button>
        </Group>
      </Group>
      <div className="tail">
        <Virtuoso
          ref={list}
          scrollerRef={scroller}
          className="scroller"
          data={rows as Row[]}
          context={{ wrap }}
          components={PARTS}
          computeItemKey={(_, { key }) => key}
          // The function, not the word: the word loses the end when many lines come (measured).
          followOutput={() => (feed.isHeld ? false : "auto")}
          increaseViewportBy={200}
          itemContent={(_, row) =>
            row.skipped !== undefined ? (
              <div className="skipped">{count(row.skipped)} lines skipped</div>
            ) : (
              <LineRow
                time={<span className="time">{shortTime(row.time, zone)}</span>}
                source={row.source}
                tone={row.tone}
                stream={row.stream}
              >
                <Message text={row.text} />
              </LineRow>
            )
          }
        />
        {held && (
          <Button className="latest" size="xs" onClick={latest}>
            {behind ? `${count(behind)} new lines: go to the latest` : "Go to the latest"}
          </Button>
        )}
      </div>
    </div>
  );
}

/** What notices in a scroller that the reader goes up, and that he is back at the end. */
function useScroller(setReading: (reading: boolean) => void) {
  const release = useRef<() => void>(() => undefined);
  return useCallback(
    (element: HTMLElement | Window | null) => {
      release.current();
      if (!(element instanceof HTMLElement)) return;
      const listening = new AbortController();
      const { signal } = listening;
      const up = () => element.scrollTop > 0 && setReading(true);
      element.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && up(), { signal, passive: true });
      element.addEventListener("touchmove", up, { signal, passive: true });
      element.addEventListener("keydown", ({ key }) => UP_KEYS.has(key) && up(), { signal });
      // A press on the scroll bar is one on the scroller itself.
      element.addEventListener("pointerdown", ({ target }) => target === element && up(), { signal });
      let before = element.scrollTop;
      const onScroll = () => {
        const { scrollTop, scrollHeight, clientHeight } = element;
        if (scrollTop > before && scrollTop + clientHeight >= scrollHeight - AT_BOTTOM) setReading(false);
        before = scrollTop;
      };
      element.addEventListener("scroll", onScroll, { signal, passive: true });
      release.current = () => listening.abort();
    },
    [setReading],
  );
}

const PARTS: Components<Row, { wrap: boolean }> = {
  List: ({ context, children, style, ref, ...rest }) => (
    <ol
      {...rest}
      ref={ref as React.Ref<HTMLOListElement>}
      style={style}
      className={context.wrap ? "lines wrap" : "lines"}
      aria-label="Lines"
    >
      {children}
    </ol>
  ),
  Item: ({ context: _, item: __, children, ...rest }) => <li {...(rest as object)}>{children}</li>,
};
