/** "12,480" → 12480n; undefined for what is no whole number of 0 or more. */
export function parseWhole(text: string): bigint | undefined {
  const digits = text.trim().replaceAll(",", "");
  return /^\d{1,18}$/.test(digits) ? BigInt(digits) : undefined;
}
