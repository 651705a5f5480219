// The page's filter, in the URL as `q`.  The key `/` goes there.

import { CloseButton, TextInput } from "@mantine/core";
import { useUrl } from "./url";

export function Search({ label }: { label: string }) {
  const [params, change] = useUrl();
  const text = params.get("q") ?? "";
  return (
    <TextInput
      data-search
      type="search"
      aria-label={label}
      placeholder={`${label}  ( / )`}
      value={text}
      onChange={(event) => change({ q: event.currentTarget.value })}
      onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      rightSection={text && <CloseButton size="sm" aria-label="Clear" onClick={() => change({ q: null })} />}
      className="search"
    />
  );
}

/** Whether all words of *filter* occur in *texts*, in any case. */
export function matches(filter: string, ...texts: string[]): boolean {
  const text = texts.join("\n").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
