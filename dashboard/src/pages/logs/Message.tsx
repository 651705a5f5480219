// A log message: text alone, whatever is in it, with the colours of its escapes and what was searched for marked.

import { memo } from "react";
import { marked, piecesOf, type Style } from "./ansi";

const SHOWN_CHARACTERS = 1_000; // of a line in a list: half a screen; the whole line is one click away

interface Props {
  text: string;
  marks?: RegExp | null;
  /** However long it is. */
  whole?: boolean;
}

export const Message = memo(function Message({ text, marks = null, whole = false }: Props) {
  const cut = !whole && text.length > SHOWN_CHARACTERS;
  const pieces = marked(piecesOf(cut ? text.slice(0, SHOWN_CHARACTERS) : text), marks);
  return (
    <>
      {pieces.map(({ text: part, style, marked: isMark }, index) => {
        const look = { className: classOf(style), style: colourOf(style) };
        if (isMark) return <mark key={index}>{part}</mark>;
        return look.className ? (
          <span key={index} {...look}>
            {part}
          </span>
        ) : (
          part
        );
      })}
      {cut && <span className="cut"> … {text.length - SHOWN_CHARACTERS} more characters</span>}
    </>
  );
});

const classOf = ({ ink, mixed, ground, bold, italic, underline }: Style) =>
  [
    ink !== undefined && `ink-${ink}`,
    mixed && "mixed",
    ground && "ground",
    bold && "bold",
    italic && "italic",
    underline && "underline",
  ]
    .filter(Boolean)
    .join(" ");

/** Colours that are not of the page's own, as variables of its style sheet. */
function colourOf({ mixed, ground }: Style): React.CSSProperties | undefined {
  if (ground) return { "--ground": ground, "--on-ground": isLight(ground) ? "#000" : "#fff" } as React.CSSProperties;
  return mixed ? ({ "--mixed": mixed } as React.CSSProperties) : undefined;
}

/** Whether black is easier to read on a colour than white (relative luminance of WCAG). */
function isLight(rgb: string): boolean {
  const [red, green, blue] = rgb.match(/\d+/g)!.map((value) => {
    const share = Number(value) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue! > 0.179;
}
