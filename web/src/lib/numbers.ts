const grouped = new Intl.NumberFormat(undefined);

/** 48213 → "48,213" in the reader's manner. */
export function count(value: number | bigint): string {
  return grouped.format(value);
}

/** 48213 → "48.2k": for places where the size matters, not the number. */
export function compact(value: number | bigint): string {
  if (value < 10_000) return count(value);
  return new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/**
 * "12,480" → 12480n; undefined for what is no whole number of 0 or more. A point is none of
 * it: "10.000" is ten to some readers and ten thousand to others.
 */
export function parseWhole(text: string): bigint | undefined {
  const [whole = ""] = /^(\d{1,3}(,\d{3})+|\d+)$/.exec(text.trim()) ?? [];
  const digits = whole.replaceAll(",", "");
  return digits && digits.length <= 18 ? BigInt(digits) : undefined;
}

/** A limit as it is typed: 0 for nothing, undefined for what is no whole number above 0. */
export function parseLimit(text: string): number | undefined {
  if (text.trim() === "") return 0;
  const value = Number(parseWhole(text) ?? 0n);
  return value > 0 && Number.isSafeInteger(value) ? value : undefined;
}

export function plural(value: number | bigint, one: string, many = `${one}s`): string {
  return `${count(value)} ${Number(value) === 1 ? one : many}`;
}

const sizes = ["KB", "MB", "GB", "TB", "PB"] as const;

/** 5242880 → "5.0 MB". */
export function bytes(value: number | bigint): string {
  if (value < 1024) return `${value} B`;
  let rest = Number(value) / 1024;
  let unit = 0;
  for (; rest >= 1024 && unit < sizes.length - 1; unit++) rest /= 1024;
  return `${rest.toFixed(1)} ${sizes[unit]}`;
}
