// The newest lines of one container or pod, for its own page.

import { Button, Card, Group, ScrollArea, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import type { LogLine } from "../../api/client";
import { useNewest } from "../../api/logs";
import { Loaded } from "../../ui/Loaded";
import { useSpan } from "../../ui/url";
import { useZone } from "../../ui/zone";
import { AroundDialog } from "./Around";
import { asked, pathOf, sourceOf, type Filters } from "./filters";
import { FoundLine, useOpen } from "./Lines";
import "./logs.css";

const LINES = 50;
const HEIGHT = 320; // CSS pixels: about sixteen lines

/** Whether all lines come from one container: then its name tells nothing. */
const isOne = (lines: LogLine[]) => new Set(lines.map(sourceOf)).size === 1;

interface Props {
  filters: Filters;
  /** Where the live tail of the same lines is. */
  tail: string;
}

export function LogPanel({ filters, tail }: Props) {
  const { span } = useSpan();
  const { zone } = useZone();
  const [open, toggle] = useOpen();
  const [around, setAround] = useState<string | null>(null);
  const newest = useNewest(asked(filters), span, LINES);
  return (
    <Card withBorder padding="md">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Logs
        </Title>
        <Group gap="xs">
          <Button size="xs" variant="default" component={Link} to={pathOf(filters)}>
            Search these logs
          </Button>
          <Button size="xs" variant="default" component={Link} to={tail}>
            Live tail
          </Button>
        </Group>
      </Group>
      <Loaded
        query={newest}
        empty={(lines) =>
          lines.length === 0 && (
            <Text c="dimmed" size="sm">
              No line came in this range.
            </Text>
          )
        }
      >
        {(lines) => (
          <ScrollArea.Autosize
            mah={HEIGHT}
            viewportProps={{ tabIndex: 0, "aria-label": "Newest lines", role: "region" }}
          >
            <ol className={isOne(lines) ? "lines wrap alone" : "lines wrap"} aria-label="Newest lines">
              {lines.map((line) => (
                <li key={line.id}>
                  <FoundLine
                    line={line}
                    zone={zone}
                    open={open.has(line.id)}
                    onToggle={toggle}
                    onAround={setAround}
                  />
                </li>
              ))}
            </ol>
          </ScrollArea.Autosize>
        )}
      </Loaded>
      {around && <AroundDialog id={around} onClose={() => setAround(null)} />}
    </Card>
  );
}
