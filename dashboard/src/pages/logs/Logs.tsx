// Log search: words, filters and a range; how many lines over time; the lines, newest first.

import { Alert, Button, Card, Group, Loader, Menu, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { Virtuoso, type Components } from "react-virtuoso";
import { ApiError, isTooSlow, words, type LogLine } from "../../api/client";
import { timesOf, useHistogram, useLines, type Asked } from "../../api/logs";
import { count } from "../../ui/format";
import { Empty, Loaded } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { RangePicker } from "../../ui/RangePicker";
import { useSpan } from "../../ui/url";
import { useZone } from "../../ui/zone";
import { pathOfTail } from "../tail/targets";
import { marksOf } from "./ansi";
import { AroundDialog } from "./Around";
import { download, MOST_LINES, type Form } from "./download";
import { FilterBar } from "./FilterBar";
import { asked as askedOf, useFilters, type Filters } from "./filters";
import { Histogram } from "./Histogram";
import { FoundLine, useOpen, useWrap } from "./Lines";
import "./logs.css";

const SHORT_RANGES = [
  ["15m", "The last 15 minutes"],
  ["1h", "The last hour"],
] as const;

export default function Logs() {
  const [filters, change] = useFilters();
  const { span, setFixed, setName } = useSpan();
  const [searches, setSearches] = useState(0);
  const spanText = JSON.stringify(span);
  // "The last hour" is that of the moment it was asked for, for the lines and the histogram alike.
  const asked = useMemo(
    (): Asked => ({ ...askedOf(filters), ...timesOf(JSON.parse(spanText), Date.now()) }),
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [filters, spanText, searches],
  );
  const lines = useLines(asked);
  const histogram = useHistogram(asked);
  const again = () => setSearches(searches + 1);
  const refused = lines.error instanceof ApiError && lines.error.status === 400 ? lines.error : null;
  const tail = tailOf(filters);
  return (
    <Page
      title="Logs"
      tools={
        <>
          <RangePicker />
          <Button variant="default" component={Link} to={tail}>
            Live tail
          </Button>
        </>
      }
    >
      <Stack gap="sm">
        <FilterBar
          filters={filters}
          change={change}
          wrong={refused?.field === "q" ? refused.message : null}
          busy={lines.isFetching && !lines.isFetchingNextPage}
          onSearch={again}
        />
        {histogram.data && !histogram.error && (
          <Card withBorder padding="sm">
            <Histogram counts={histogram.data} onZoom={setFixed} />
          </Card>
        )}
        {isTooSlow(lines.error) && !lines.data ? (
          <TooSlow onRange={setName} onAgain={again} />
        ) : (
          <Loaded
            query={lines}
            empty={({ pages }) =>
              pages[0]!.lines.length === 0 && (
                <Empty title="No line is found" action={<Link to="/logs?range=7d">All lines of the last 7 days</Link>}>
                  Choose a longer range, or fewer words and filters. Agents send what containers write; none has
                  written this here.
                </Empty>
              )
            }
          >
            {({ pages }) => (
              <Found
                pages={pages}
                asked={asked}
                filters={filters}
                more={lines.hasNextPage}
                loading={lines.isFetchingNextPage}
                failure={lines.error}
                onMore={() => !lines.isFetching && lines.hasNextPage && void lines.fetchNextPage()}
              />
            )}
          </Loaded>
        )}
      </Stack>
    </Page>
  );
}

/** The live tail of what the filters mean, as far as they name one container or pod. */
function tailOf({ agentId, containerId, namespace, pod, container }: Filters): string {
  if (agentId && containerId) return pathOfTail({ agentId, containerId });
  if (agentId && namespace && pod) return pathOfTail({ agentId, namespace, pod, ...(container && { container }) });
  return "/tail";
}

function TooSlow({ onRange, onAgain }: { onRange: (name: string) => void; onAgain: () => void }) {
  return (
    <Alert variant="outline" title="The search took too long" role="alert">
      <Text mb="sm">
        It was stopped so that others are not held up. Choose a shorter range, or add a filter or another word of at
        least three letters.
      </Text>
      <Group gap="xs">
        {SHORT_RANGES.map(([name, label]) => (
          <Button key={name} size="xs" variant="default" onClick={() => onRange(name)}>
            {label}
          </Button>
        ))}
        <Button size="xs" variant="default" onClick={onAgain}>
          Try again
        </Button>
      </Group>
    </Alert>
  );
}

interface FoundProps {
  pages: { lines: LogLine[] }[];
  asked: Asked;
  filters: Filters;
  more: boolean;
  loading: boolean;
  failure: unknown;
  onMore: () => void;
}

function Found({ pages, asked, filters, more, loading, failure, onMore }: FoundProps) {
  const { zone } = useZone();
  const [open, toggle] = useOpen();
  const [around, setAround] = useState<string | null>(null);
  const [wrap, setWrap] = useWrap();
  const lines = useMemo(() => pages.flatMap((page) => page.lines), [pages]);
  const marks = useMemo(() => marksOf(filters.q ?? ""), [filters.q]);
  const end = more || loading ? "more" : failure ? words(failure) : "all";
  return (
    <div>
      <Group justify="space-between" mb={4} gap="xs">
        <Text size="sm" c="dimmed" role="status">
          {more ? `The newest ${count(lines.length)} lines` : `${count(lines.length)} lines`}
        </Text>
        <Group gap="xs">
          <Button size="xs" variant={wrap ? "filled" : "default"} aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
            Wrap
          </Button>
          <Download asked={asked} />
        </Group>
      </Group>
      <Virtuoso
        useWindowScroll
        data={lines}
        context={{ wrap, end }}
        components={PARTS}
        computeItemKey={(_, line) => line.id}
        endReached={onMore}
        increaseViewportBy={400}
        itemContent={(_, line) => (
          <FoundLine
            line={line}
            zone={zone}
            marks={marks}
            open={open.has(line.id)}
            onToggle={toggle}
            onAround={setAround}
          />
        )}
      />
      {around && <AroundDialog id={around} marks={marks} onClose={() => setAround(null)} />}
    </div>
  );
}

interface Context {
  wrap: boolean;
  /** Whether there are more lines to come, or none; or why they did not come. */
  end: string;
}

// The list is a list also for those who cannot see it.
const PARTS: Components<LogLine, Context> = {
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
  Footer: ({ context: { end } }) => (
    <Text size="sm" c="dimmed" ta="center" py="md" component="div">
      {end === "more" ? <Loader type="dots" aria-hidden /> : end === "all" ? "These are all." : end}
    </Text>
  ),
};

function Download({ asked }: { asked: Asked }) {
  const [progress, setProgress] = useState<number | null>(null);
  const save = async (form: Form) => {
    setProgress(0);
    try {
      const saved = await download(asked, form, setProgress);
      notifications.show({
        message: saved.more
          ? `The newest ${count(saved.lines)} lines are saved; there are more. A shorter range makes smaller files.`
          : `${count(saved.lines)} lines are saved.`,
      });
    } catch (error) {
      notifications.show({ color: "red", message: words(error) });
    }
    setProgress(null);
  };
  return (
    <Menu position="bottom-end" width={260}>
      <Menu.Target>
        <Button size="xs" variant="default" disabled={progress !== null}>
          {progress === null ? "Download" : `${count(progress)} lines …`}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label c="dimmed">The found lines, newest first, at most {count(MOST_LINES)}</Menu.Label>
        <Menu.Item onClick={() => void save("text")}>Plain text</Menu.Item>
        <Menu.Item onClick={() => void save("ndjson")}>JSON, an object a line</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
