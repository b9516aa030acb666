import { count, plural } from "./numbers";
import { duration } from "./time";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const AGE_MIN = MINUTE;
export const AGE_MAX = 3660 * DAY;

/** Ages that people choose from, in seconds. */
export const ages: readonly number[] = [HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];

/** A number of seconds as people read it: 7 d. */
export function ageText(seconds: number): string {
  return duration(seconds * 1000);
}

const units: Record<string, number> = { min: MINUTE, m: MINUTE, h: HOUR, d: DAY };

/** The seconds of what people type: 90 min, 12h, 45 d. */
export function parseAge(text: string): number | undefined {
  const [, value, unit] = /^\s*(\d+)\s*(min|m|h|d)\s*$/.exec(text) ?? [];
  return value && unit ? Number(value) * (units[unit] ?? 0) : undefined;
}

/** A number of seconds as people type it. */
export function typedAge(seconds: number): string {
  if (seconds % DAY === 0) return `${seconds / DAY} d`;
  if (seconds % HOUR === 0) return `${seconds / HOUR} h`;
  return `${Math.round(seconds / MINUTE)} min`;
}

/** What is wrong with an age; max 0 is no maximum. */
export function ageProblem(seconds: number | undefined, max: number): string | undefined {
  if (seconds === undefined) return "Enter a number with min, h or d, such as 45 d.";
  if (seconds < AGE_MIN || seconds > AGE_MAX) return "Choose at least 1 min and at most 3,660 d.";
  if (max && seconds > max) return `Your plan keeps at most ${ageText(max)}.`;
  return undefined;
}

/** What is wrong with how many are kept; undefined is not readable, max 0 is no maximum. */
export function keptProblem(value: number | undefined, max: number, unit = ""): string | undefined {
  if (value === undefined) return "Enter a whole number above 0, or leave it empty.";
  return max && value > max ? `Your plan keeps at most ${count(max)}${unit}.` : undefined;
}

/** The numbers of a retention in the control API, by their names there. */
const spoken: readonly [string, string, (n: number) => string][] = [
  ["completed_seconds", "completed", ageText],
  ["dead_seconds", "dead", ageText],
  ["cancelled_seconds", "cancelled", ageText],
  ["finished_max", "at most", (n) => plural(n, "finished job")],
  ["events_seconds", "events", ageText],
  ["events_bytes_max", "events", (n) => `${Math.round(n / 2 ** 20)} MB`],
  ["usage_seconds", "usage", ageText],
];

/** What was set of a retention, in one line; empty if nothing was. */
export function retentionText(set: Record<string, unknown>): string {
  return spoken
    .filter(([name]) => typeof set[name] === "number")
    .map(([name, word, say]) => `${word} ${say(set[name] as number)}`)
    .join(", ");
}
