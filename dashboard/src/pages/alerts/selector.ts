// Which series a rule's selector means, as far as a page can tell: the service's own answer is what counts.

type Labels = Record<string, string>;
type Test = (value: string) => boolean;

const NAME = /^\s*([A-Za-z_:][\w:]*)?\s*/;
const MATCHER = /^\s*,?\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)/;

/** The value of a quoted string; undefined for escapes that are not JSON's. */
function unquoted(text: string): string | undefined {
  if (text.startsWith("`")) return text.slice(1, -1);
  const inner = text.slice(1, -1);
  try {
    return JSON.parse(text.startsWith('"') ? text : `"${inner.replaceAll("\\'", "'").replaceAll('"', '\\"')}"`) as string;
  } catch {
    return undefined;
  }
}

function testOf(operator: string, value: string): Test | undefined {
  if (operator === "=") return (given) => given === value;
  if (operator === "!=") return (given) => given !== value;
  try {
    const pattern = new RegExp(`^(?:${value})$`, "s");
    return operator === "=~" ? (given) => pattern.test(given) : (given) => !pattern.test(given);
  } catch {
    return undefined; // what RE2 knows and browsers do not
  }
}

/** Return whether a series belongs to a selector; for one that cannot be read here, no series does. */
export function selectorOf(text: string): (labels: Labels) => boolean {
  const nothing = () => false;
  const [head, name] = NAME.exec(text) ?? ["", undefined];
  const tests: [label: string, test: Test][] = name ? [["__name__", (given) => given === name]] : [];
  let rest = text.slice(head.length).trim();
  if (rest) {
    if (!rest.startsWith("{") || !rest.endsWith("}")) return nothing;
    rest = rest.slice(1, -1);
    for (let found = MATCHER.exec(rest); found; found = MATCHER.exec(rest)) {
      const value = unquoted(found[3]!);
      const test = value === undefined ? undefined : testOf(found[2]!, value);
      if (!test) return nothing;
      tests.push([found[1]!, test]);
      rest = rest.slice(found[0].length);
    }
    if (!/^\s*,?\s*$/.test(rest)) return nothing;
  }
  return (labels) => tests.length > 0 && tests.every(([label, test]) => test(labels[label] ?? ""));
}
