const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

// English like the page around it, in the reader's own zone, which it names.
const local = new Intl.DateTimeFormat("en-US", {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
  timeZoneName: "short",
});

export function timeLocal(at: Date): string {
  return local.format(at);
}

/** "2026-11-21 10:34:06 UTC": sorts, and says its zone. */
export function timeUtc(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** "just now", "42 s ago", "in 5 min", "3 d ago". */
export function relativeTime(at: number, now: number): string {
  const ago = now - at;
  const size = Math.abs(ago);
  if (size < 3 * SECOND) return "just now";
  const text = duration(size, 1);
  return ago > 0 ? `${text} ago` : `in ${text}`;
}

/** A duration with at most `parts` units: "2 min 5 s", "340 ms", "1 d 3 h". */
export function duration(ms: number, parts = 2): string {
  if (!Number.isFinite(ms)) return "unknown";
  if (ms < 0) return "0 ms";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND && parts > 1) return `${(Math.floor(ms / 100) / 10).toString()} s`;
  const units: [number, string][] = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [SECOND, "s"],
  ];
  const words: string[] = [];
  let rest = ms;
  for (const [size, name] of units) {
    const count = Math.floor(rest / size);
    if (count > 0) words.push(`${count} ${name}`);
    // A unit that is zero still ends the text: "1 d", never "1 d 4 s".
    if (words.length > 0 && words.length + (count === 0 ? 1 : 0) >= parts) break;
    rest -= count * size;
  }
  return words.join(" ");
}
