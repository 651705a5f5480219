// The span of time of a page's charts: up to now, or between two times.

import { Button, Group, NativeSelect, Popover, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useSpan, RANGES } from "./url";
import { fullTime, type Zone } from "./format";
import { useZone } from "./zone";

/** Return a time in unix seconds as `<input type=datetime-local>` wants it. */
function toField(seconds: number, zone: Zone): string {
  return fullTime(seconds * 1000, zone).slice(0, 19).replace(" ", "T");
}

function fromField(text: string, zone: Zone): number {
  return Date.parse(zone === "UTC" ? `${text}Z` : text) / 1000;
}

export function RangePicker() {
  const { span, name, setName, setFixed } = useSpan();
  const { zone } = useZone();
  const [open, setOpen] = useState(false);
  const [fields, setFields] = useState({ from: "", to: "" });
  const begin = () => {
    const now = Date.now() / 1000;
    const [from, to] = "from" in span ? [span.from, span.to] : [now - span.lastSeconds, now];
    setFields({ from: toField(from, zone), to: toField(to, zone) });
    setOpen(!open);
  };
  const from = fromField(fields.from, zone);
  const to = fromField(fields.to, zone);
  const valid = to > from;
  return (
    <Group gap="xs" wrap="nowrap">
      <NativeSelect
        aria-label="Range"
        value={name}
        onChange={(event) => event.currentTarget.value !== "fixed" && setName(event.currentTarget.value)}
        data={[
          ...RANGES.map(([value, , label]) => ({ value, label })),
          ...("from" in span
            ? [{ value: "fixed", label: `${toField(span.from, zone).replace("T", " ")} …` }]
            : []),
        ]}
      />
      <Popover opened={open} onChange={setOpen} trapFocus withinPortal position="bottom-end">
        <Popover.Target>
          <Button variant="default" onClick={begin}>
            From … to
          </Button>
        </Popover.Target>
        <Popover.Dropdown aria-label="From and to">
          <Stack gap="xs">
            {(["from", "to"] as const).map((key) => (
              <TextInput
                key={key}
                type="datetime-local"
                step={1}
                label={`${key === "from" ? "From" : "To"} (${zone})`}
                value={fields[key]}
                onChange={(event) => setFields({ ...fields, [key]: event.currentTarget.value })}
                error={key === "to" && !valid && "Must be after the first time"}
              />
            ))}
            <Button
              disabled={!valid}
              onClick={() => {
                setFixed(from, to);
                setOpen(false);
              }}
            >
              Show
            </Button>
          </Stack>
        </Popover.Dropdown>
      </Popover>
    </Group>
  );
}
