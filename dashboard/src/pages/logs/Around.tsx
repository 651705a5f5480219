// The lines before and after one, of the same container, oldest first.

import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { AROUND_MOST, useAround } from "../../api/logs";
import { Loaded } from "../../ui/Loaded";
import { useZone } from "../../ui/zone";
import { FoundLine, useOpen } from "./Lines";

const FIRST_LINES = 20;
const MORE_LINES = 100;

interface Props {
  id: string;
  marks?: RegExp | null;
  /** The line itself is shown open. */
  opened?: boolean;
}

export function Around({ id, marks = null, opened = false }: Props) {
  const [count, setCount] = useState({ before: FIRST_LINES, after: FIRST_LINES });
  const { zone } = useZone();
  const [open, toggle] = useOpen();
  const [closed, setClosed] = useState(!opened);
  const around = useAround(id, count.before, count.after);
  const middle = useRef<HTMLLIElement>(null);
  const isThere = around.data !== undefined;
  useEffect(() => {
    middle.current?.scrollIntoView({ block: "center" }); // newer browsers return a promise: nothing for React
  }, [isThere]);
  const more = (side: "before" | "after") =>
    setCount({ ...count, [side]: Math.min(AROUND_MOST, count[side] + MORE_LINES) });
  return (
    <Loaded query={around}>
      {({ before, line, after }) => (
        <Stack gap="xs">
          <More
            what="earlier"
            found={before.length}
            asked={count.before}
            busy={around.isPlaceholderData}
            onMore={() => more("before")}
          />
          <ol className="lines wrap all" aria-label="Lines around it">
            {[...before, line, ...after].map((each) => {
              const isMiddle = each.id === line.id;
              return (
                <li
                  key={each.id}
                  ref={isMiddle ? middle : undefined}
                  className={isMiddle ? "middle" : undefined}
                  aria-current={isMiddle ? "true" : undefined}
                >
                  <FoundLine
                    line={each}
                    zone={zone}
                    marks={marks}
                    open={isMiddle ? !closed : open.has(each.id)}
                    onToggle={isMiddle ? () => setClosed(!closed) : toggle}
                  />
                </li>
              );
            })}
          </ol>
          <More
            what="later"
            found={after.length}
            asked={count.after}
            busy={around.isPlaceholderData}
            onMore={() => more("after")}
          />
        </Stack>
      )}
    </Loaded>
  );
}

/** The same over the page. */
export function AroundDialog({ onClose, ...rest }: Props & { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Lines around it" size="90rem">
      <Around {...rest} />
    </Modal>
  );
}

interface MoreProps {
  what: "earlier" | "later";
  found: number;
  asked: number;
  busy: boolean;
  onMore: () => void;
}

function More({ what, found, asked, busy, onMore }: MoreProps) {
  if (found < asked && !busy)
    return (
      <Text size="sm" c="dimmed">
        There are no {what} lines of this container within a day.
      </Text>
    );
  if (asked >= AROUND_MOST && !busy)
    return (
      <Text size="sm" c="dimmed">
        More than {AROUND_MOST} {what} lines: search for them.
      </Text>
    );
  return (
    <Group>
      <Button size="xs" variant="default" loading={busy} onClick={onMore}>
        More {what} lines
      </Button>
    </Group>
  );
}
