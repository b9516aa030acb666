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
