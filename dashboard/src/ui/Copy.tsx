// Text that is meant to be copied, and the button that does it.

import { Button, Code, Stack } from "@mantine/core";
import { useState } from "react";

const SHOWN_MS = 2_000;

/** Copy *text*; also where the page has no secure context, and with it no clipboard of its own. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    // Inside an open dialog, or its focus trap would take the focus back.
    (document.querySelector("[role=dialog]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyButton({ text, children = "Copy" }: { text: string; children?: string }) {
  const [said, say] = useState("");
  const click = async () => {
    say((await copy(text)) ? "Copied" : "Select and copy by hand");
    setTimeout(() => say(""), SHOWN_MS);
  };
  return (
    <Button size="xs" variant="default" onClick={() => void click()}>
      <span aria-live="polite">{said || children}</span>
    </Button>
  );
}

export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <Stack gap={6} align="flex-start">
      <Code block className="block" tabIndex={0} aria-label={label}>
        {text}
      </Code>
      <CopyButton text={text} />
    </Stack>
  );
}
