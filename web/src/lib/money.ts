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

// What is billed is counted in the currency's smallest unit, and never a float.

/** How many digits of a currency its smallest unit is: 2 for usd, 0 for jpy. */
function digitsOf(currency: string): number {
  return formatOf(currency).resolvedOptions().maximumFractionDigits ?? 2;
}

const formatOf = (currency: string) =>
  new Intl.NumberFormat(undefined, {
    style: "currency",
    currency: currency || "usd",
    currencyDisplay: "narrowSymbol",
  });

/** 120050n of usd → "1200.50", as people type it. */
export function typedMoney(amount: bigint, currency: string): `${number}` {
  const digits = digitsOf(currency);
  const text = String(amount < 0n ? -amount : amount).padStart(digits + 1, "0");
  const cut = text.length - digits;
  const sign = amount < 0n ? "-" : "";
  return `${sign}${text.slice(0, cut)}${digits > 0 ? `.${text.slice(cut)}` : ""}` as `${number}`;
}

/** 120050n of usd → "$1,200.50". */
export function money(amount: bigint, currency: string): string {
  // Formatted from its digits: as a number it would be another one beyond 2^53.
  return formatOf(currency).format(typedMoney(amount, currency));
}

/** "1,200.5" → 120050n of usd; undefined for what is no amount above 0. */
export function parseMoney(text: string, currency: string): bigint | undefined {
  const digits = digitsOf(currency);
  const [, whole = "", part = ""] = /^(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?$/.exec(text.trim()) ?? [];
  if (!whole || part.length > digits) return undefined;
  const amount = BigInt(whole.replaceAll(",", "") + part.padEnd(digits, "0"));
  return amount > 0n && amount < 2n ** 63n ? amount : undefined;
}

/** "$" of usd: stands before an amount that is typed. */
export function currencySign(currency: string): string {
  const parts = formatOf(currency).formatToParts(0);
  return parts.find(({ type }) => type === "currency")?.value ?? "";
}
