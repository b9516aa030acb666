const grouped = new Intl.NumberFormat(undefined);

/** 48213 → "48,213" in the reader's manner. */
export function count(value: number): string {
  return grouped.format(value);
}

/** 48213 → "48.2k": for places where the size matters, not the number. */
export function compact(value: number): string {
  if (value < 10_000) return count(value);
  return new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KB`;
  return `${(value / 1024 / 1024).toFixed(1)} MB`;
}
