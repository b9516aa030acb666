const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** A duration as the wire writes it: "90s", "10m", "1h". */
export function wireDuration(ms: number): string {
  if (ms > 0 && ms % HOUR === 0) return `${ms / HOUR}h`;
  if (ms > 0 && ms % MINUTE === 0) return `${ms / MINUTE}m`;
  return ms % SECOND === 0 ? `${ms / SECOND}s` : `${ms}ms`;
}

const units: Record<string, number> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR };

/** The milliseconds of a duration as on the wire, such as 1m30s. */
export function wireMilliseconds(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, value, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g))
    sum += Number(value) * (units[unit ?? ""] ?? 0);
  return Math.round(sum);
}

/** A duration of the wire, without the parts that are zero: "24h0m0s" is "24h". */
export function shortDuration(text: string): string {
  return text.replace(/m0s$/, "m").replace(/h0m$/, "h");
}
