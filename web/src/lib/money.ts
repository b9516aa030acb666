/** 12.3456 → "$12.35"; what is less than a cent keeps two digits that say something. */
export function dollars(value: number): string {
  if (value === 0) return "$0";
  const size = Math.abs(value);
  const digits = size >= 0.01 ? 2 : Math.min(9, Math.ceil(-Math.log10(size)) + 1);
  return new Intl.NumberFormat(undefined, {
    style: "currency",
    currency: "USD",
    currencyDisplay: "narrowSymbol",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(value);
}
