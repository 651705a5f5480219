// The page's filter, in the URL as `q`.  The key `/` goes there.

import { CloseButton, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useUrl } from "./url";

export function Search({ label }: { label: string }) {
  const [params, change] = useUrl();
  const given = params.get("q") ?? "";
  // The router changes the URL in its own time; what is typed must not wait for it.
  const [text, setText] = useState(given);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (document.activeElement !== field.current) setText(given);
  }, [given]);
  const set = (next: string) => {
    setText(next);
    change({ q: next });
  };
  return (
    <TextInput
      ref={field}
      data-search
      type="search"
      aria-label={label}
      placeholder={`${label}  ( / )`}
      value={text}
      onChange={(event) => set(event.currentTarget.value)}
      onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      rightSection={text && <CloseButton size="sm" aria-label="Clear" onClick={() => set("")} />}
      className="search"
    />
  );
}

/** Return a function that says whether all words of *filter* occur in texts, in any case. */
export function matcher(filter: string): (...texts: string[]) => boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return () => true;
  return (...texts) => {
    const text = texts.join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  };
}
