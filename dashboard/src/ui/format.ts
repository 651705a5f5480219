// Numbers and times as people read them.

// By number of digits after the point.  Made once: a new one costs more than what it formats.
const FORMATS = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const MEBIBYTE = 2 ** 20;

export function bytes(value: number): string {
  let power = 0;
  while (Math.abs(value) >= 1024 && power < BINARY.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${rounded(value)} ${BINARY[power]}`;
}

export const mebibytes = (value: number) => bytes(value * MEBIBYTE);
export const bytesPerSecond = (value: number) => `${bytes(value)}/s`;
export const percent = (value: number) => `${rounded(value)} %`;
export const count = (value: number) => FORMATS[0]!.format(value);

/** Return a number with three or so significant digits, in plain notation where it is readable. */
export function rounded(value: number, digits = 1): string {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e15 || size < 1e-4)) return value.toExponential(2);
  return FORMATS[size >= 100 ? 0 : size < 1 ? Math.max(digits, 2) : digits]!.format(value);
}

const UNITS: [seconds: number, name: string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Return a length of time by its largest unit: `3 min`. */
export function duration(seconds: number): string {
  const [size, name] = UNITS.find(([unit]) => seconds >= unit) ?? [1, "s"];
  return `${Math.floor(Math.max(0, seconds) / size)} ${name}`;
}

export type Zone = "local" | "UTC";

const LOCAL = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const UTC = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone: "UTC" });

/** Return a time, given in milliseconds, in full: `2026-11-21 01:40:32`. */
export const fullTime = (at: number, zone: Zone) => (zone === "UTC" ? `${UTC.format(at)} UTC` : LOCAL.format(at));

/** Quote a value for a selector. */
export const quoted = (value: string) => JSON.stringify(value);
