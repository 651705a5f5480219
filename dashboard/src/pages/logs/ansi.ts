// The text of a log line as a terminal would show it: colours and weight of its escapes, all others dropped.
//
// Every line is readable: colours of the page's own scheme stand for the sixteen of a terminal, any other is
// kept to a lightness that can be read, and on a coloured background the text is black or white.

export interface Style {
  /** One of the sixteen colours of a terminal, by number. */
  ink?: number;
  /** Any other colour, as `rgb(…)`. */
  mixed?: string;
  ground?: string;
  bold?: boolean;
  italic?: boolean;
  underline?: boolean;
}

export interface Piece {
  text: string;
  style: Style;
  /** It is what was searched for. */
  marked?: boolean;
}

type Colour = { ink: number } | { rgb: [number, number, number] };

interface State {
  fore?: Colour | undefined;
  back?: Colour | undefined;
  bold?: boolean;
  italic?: boolean;
  underline?: boolean;
  inverse?: boolean;
}

// CSI (its parameters and its last letter), OSC, DCS and the like to their end, and the short ones.
const ESCAPES =
  // eslint-disable-next-line no-control-regex
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const PICTURES = 0x2400; // of the control characters, in Unicode
const DELETED = "\u2421";

// The sixteen of a terminal as backgrounds (those of xterm), as red, green and blue.
const SIXTEEN: [number, number, number][] = [
  [0, 0, 0],
  [205, 0, 0],
  [0, 205, 0],
  [205, 205, 0],
  [0, 0, 238],
  [205, 0, 205],
  [0, 205, 205],
  [229, 229, 229],
  [127, 127, 127],
  [255, 0, 0],
  [0, 255, 0],
  [255, 255, 0],
  [92, 92, 255],
  [255, 0, 255],
  [0, 255, 255],
  [255, 255, 255],
];
const CUBE = [0, 95, 135, 175, 215, 255]; // levels of the 6 × 6 × 6 colours from number 16 on

/** Show control characters, which would be invisible or play tricks, as their pictures. */
function visible(text: string): string {
  return text.replace(CONTROLS, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(PICTURES + code) : code === 0x7f ? DELETED : "\ufffd";
  });
}

/** Return the pieces of *message*, each with the look that its escapes give it. */
export function piecesOf(message: string): Piece[] {
  const line = message.replace(/\r+$/, ""); // what Windows ends lines with
  const pieces: Piece[] = [];
  let state: State = {};
  let from = 0;
  const add = (to: number) => {
    if (to > from) pieces.push({ text: visible(line.slice(from, to)), style: styleOf(state) });
  };
  for (const match of line.matchAll(ESCAPES)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") state = changed(state, match[1] ?? "");
  }
  add(line.length);
  return pieces;
}

/** Return *message* without any escape. */
export const plain = (message: string) =>
  piecesOf(message)
    .map(({ text }) => text)
    .join("");

/** Return the state after the parameters of one SGR escape. */
function changed(before: State, parameters: string): State {
  const state = { ...before };
  const codes = parameters.split(";");
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at]!;
    const number = Number(code.split(":")[0]);
    if (number === 0) {
      for (const key of Object.keys(state) as (keyof State)[]) delete state[key];
    } else if (number === 1) state.bold = true;
    else if (number === 3) state.italic = true;
    else if (number === 4) state.underline = code !== "4:0";
    else if (number === 7) state.inverse = true;
    else if (number === 22) state.bold = false;
    else if (number === 23) state.italic = false;
    else if (number === 24) state.underline = false;
    else if (number === 27) state.inverse = false;
    else if (number >= 30 && number <= 37) state.fore = { ink: number - 30 };
    else if (number >= 90 && number <= 97) state.fore = { ink: number - 82 };
    else if (number === 39) state.fore = undefined;
    else if (number >= 40 && number <= 47) state.back = { ink: number - 40 };
    else if (number >= 100 && number <= 107) state.back = { ink: number - 92 };
    else if (number === 49) state.back = undefined;
    else if (number === 38 || number === 48) {
      // `38:2::r:g:b` in one parameter, or `38;2;r;g;b` in the next ones.
      const inside = code.split(":").slice(1);
      const rest = inside.length ? inside : codes.slice(at + 1, at + 5);
      const colour = chosen(rest, inside.length > 0);
      if (inside.length === 0) at += rest[0] === "5" ? 2 : rest[0] === "2" ? 4 : 0;
      if (colour) state[number === 38 ? "fore" : "back"] = colour;
    }
  }
  return state;
}

/** Return the colour that `5;n` or `2;r;g;b` say; *spaced*: a colour space may stand before red. */
function chosen(codes: string[], spaced: boolean): Colour | null {
  const [mode, ...values] = codes;
  const numbers = (spaced && mode === "2" ? values.slice(-3) : values).map(Number);
  if (numbers.some((value) => !(value >= 0 && value <= 255))) return null;
  const [first, second, third] = numbers;
  if (mode === "2" && third !== undefined) return { rgb: [first!, second!, third] };
  if (mode !== "5" || first === undefined) return null;
  if (first < 16) return { ink: first };
  if (first > 231) {
    const grey = 8 + 10 * (first - 232);
    return { rgb: [grey, grey, grey] };
  }
  const place = first - 16;
  return { rgb: [CUBE[Math.floor(place / 36)]!, CUBE[Math.floor(place / 6) % 6]!, CUBE[place % 6]!] };
}

function styleOf(state: State): Style {
  const [fore, back] = state.inverse ? [state.back, state.fore ?? { ink: 7 }] : [state.fore, state.back];
  return {
    ...(!back && fore && ("ink" in fore ? { ink: fore.ink } : { mixed: `rgb(${fore.rgb.join(" ")})` })),
    ...(back && { ground: `rgb(${("ink" in back ? SIXTEEN[back.ink]! : back.rgb).join(" ")})` }),
    ...(state.bold && { bold: true }),
    ...(state.italic && { italic: true }),
    ...(state.underline && { underline: true }),
  };
}

// What `q` asks for, as the service reads it (docs/logs.md).
const TERMS = /(-?)(?:"([^"]*)"|(\S+))/g;

/** Return what finds the words and phrases of *q* in a text; null if it has none. */
export function marksOf(q: string): RegExp | null {
  const found = [...q.matchAll(TERMS)]
    .filter(([, minus]) => !minus)
    .map(([, , phrase, word]) => phrase ?? word ?? "")
    .filter(Boolean)
    .sort((a, b) => b.length - a.length)
    .map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`));
  return found.length ? new RegExp(found.join("|"), "giu") : null;
}

/** Return *pieces*, cut where *marks* begin and end. */
export function marked(pieces: Piece[], marks: RegExp | null): Piece[] {
  if (!marks) return pieces;
  const text = pieces.map((piece) => piece.text).join("");
  const edges = [...text.matchAll(marks)].flatMap(({ index, 0: found }) => [index, index + found.length]);
  if (edges.length === 0) return pieces;
  const cut: Piece[] = [];
  let place = 0; // of the piece's begin in the text
  let next = 0; // of the edges: odd while inside of a mark
  for (const piece of pieces) {
    const end = place + piece.text.length;
    let from = place;
    while (from < end) {
      while (next < edges.length && edges[next]! <= from) next += 1;
      const to = Math.min(end, edges[next] ?? end);
      const part = { text: piece.text.slice(from - place, to - place), style: piece.style };
      cut.push(next % 2 ? { ...part, marked: true } : part);
      from = to;
    }
    place = end;
  }
  return cut;
}
