import type { Entitlement, LimitStatus, Plan, Price } from "~/gen/corvo/cloud/v1/plan_pb";
import type { Counts, Invoice, InvoiceLine, UsagePoint } from "~/gen/corvo/cloud/v1/usage_pb";
import { money } from "./money";
import { bytes, count } from "./numbers";
import { dateOf } from "./proto-time";
import { ageText } from "./retention";

// What is counted, limited and billed, in words and numbers for people.

/** What a number counts. */
type Kind = "count" | "bytes" | "byte-hours";

export interface Meter {
  /** In the API's messages. */
  key: Exclude<keyof Counts, `$${string}`>;
  /** In prices and on invoices. */
  item: string;
  title: string;
  kind: Kind;
  /** One counted thing, in a price. */
  one: string;
  /** A longer time has the most of its hours, not their sum. */
  peak?: boolean;
}

export const meters: readonly Meter[] = [
  { key: "jobsEnqueued", item: "jobs_enqueued", title: "Jobs enqueued", kind: "count", one: "job" },
  { key: "executions", item: "executions", title: "Executions", kind: "count", one: "execution" },
  { key: "payloadBytes", item: "payload_bytes", title: "Payloads", kind: "bytes", one: "byte" },
  {
    key: "storedByteHours",
    item: "stored_byte_hours",
    title: "Storage",
    kind: "byte-hours",
    one: "byte-hour",
  },
  { key: "egressBytes", item: "egress_bytes", title: "Sent", kind: "bytes", one: "byte" },
  {
    key: "streamsPeak",
    item: "streams_peak",
    title: "Most streams",
    kind: "count",
    one: "stream",
    peak: true,
  },
];

/** Hours of the month that storage is priced by. */
const MONTH_HOURS = 730n;
const GB = 2n ** 30n;

/** A number of a meter: "12,480", "3.1 MB", "1.2 GB-hours". */
export function quantity({ kind }: Meter, value: bigint, small: (value: bigint) => string = count): string {
  if (kind === "count") return small(value);
  return kind === "bytes" ? bytes(value) : `${bytes(value)}-hours`;
}

/** What is included in a price: "1,000,000 jobs", "20 GB-months", "100 GB". */
function amountOf(meter: Meter, value: bigint): string {
  if (meter.kind === "count") return `${count(value)} ${value === 1n ? meter.one : `${meter.one}s`}`;
  const { size, word } = bulk[meter.kind];
  if (value % size !== 0n) return quantity(meter, value);
  return `${count(value / size)} ${word}${meter.kind === "byte-hours" && value !== size ? "s" : ""}`;
}

/** In what bytes are sold. */
const bulk = {
  bytes: { size: GB, word: "GB" },
  "byte-hours": { size: GB * MONTH_HOURS, word: "GB-month" },
} as const;

export const meterOf = (item: string): Meter | undefined => meters.find((meter) => meter.item === item);

/** "1,000,000 jobs included, then $0.50 for every 1,000,000 jobs". */
export function priceText(price: Price, currency: string): string {
  const meter = meterOf(price.meter);
  if (!meter) return "";
  const each =
    price.amount === 0n
      ? "then free"
      : `then ${money(price.amount, currency)} for every ${amountOf(meter, price.per).replace(/^1 /, "")}`;
  return price.included > 0n
    ? `${amountOf(meter, price.included)} included, ${each}`
    : each.slice("then ".length);
}

/** "$49.00 per month", "Free". */
export function baseText(plan: Pick<Plan, "baseAmount" | "currency" | "selfServe" | "prices">): string {
  if (plan.baseAmount > 0n) return `${money(plan.baseAmount, plan.currency)} per month`;
  if (!plan.selfServe) return "By agreement";
  return plan.prices.some((price) => price.amount > 0n) ? "No monthly price, pay for what you use" : "Free";
}

/** Where the number of a line comes from: "(12,480 − 10,000) × $0.50 ÷ 1,000, rounded down". */
export function lineSum(line: InvoiceLine, currency: string): string {
  const meter = meterOf(line.item);
  if (!meter) return line.item === "base" ? "The plan's price for these hours of the month" : "";
  // A line of the payment provider says what it costs, not how.
  if (line.per === 0n) return "";
  if (line.quantity <= line.included) return "Included in the plan";
  const billed =
    line.included > 0n ? `(${count(line.quantity)} − ${count(line.included)})` : count(line.quantity);
  return `${billed} × ${money(line.unitAmount, currency)} ÷ ${count(line.per)}, rounded down`;
}

/** What an entitlement gives: "1,000/s", "256.0 KB", "30 d", "No limit", "Included". */
export function entitlementText(e: Pick<Entitlement, "name" | "value" | "unlimited" | "unit">): string {
  if (e.name.startsWith("feature.")) return e.unlimited || e.value > 0n ? "Included" : "Not included";
  if (e.unlimited) return "No limit";
  return inUnit(e.value, e.unit);
}

function inUnit(value: bigint, unit: string): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") return ageText(Number(value));
  if (unit.endsWith("/s")) return `${count(value)}/s`;
  return count(value);
}

type Limit = Pick<LimitStatus, "name" | "unit" | "used" | "max" | "unlimited">;

/** "12 of 60", "12, no limit". */
export function limitText(limit: Limit): string {
  const used = inUnit(limit.used, limit.unit);
  return limit.unlimited ? `${used}, no limit` : `${used} of ${inUnit(limit.max, limit.unit)}`;
}

/** How much of a limit is used, from 0 to 1 at the limit and beyond it. */
export function shareOf(used: bigint, max: bigint): number {
  if (max <= 0n) return used > 0n ? 1 : 0;
  return Math.min(1, Number((used * 10_000n) / max) / 10_000);
}

/** What happens at a limit; empty if its name doesn't tell. */
export function limitFate({ name, unlimited }: Pick<Limit, "name" | "unlimited">, overLimit: string): string {
  if (unlimited) return "";
  switch (name) {
    case "jobs_per_month_max":
      return overLimit === "reject_enqueues"
        ? "At the limit, new jobs are rejected."
        : "At the limit, new jobs are accepted and wait; none starts.";
    case "open_jobs_max":
      return "At the limit, the namespace rejects new jobs until some of its jobs finish.";
    case "stored_bytes_max":
      return "At the limit, the namespace rejects new jobs until some of its jobs are deleted.";
    case "namespaces_max":
    case "members_max":
    case "keys_max":
      return "At the limit, no more can be added.";
    default:
      return "";
  }
}

/** What a period or a list of points counts together: sums, and of peaks the highest. */
export function totalOf(counts: readonly (Counts | undefined)[], { key, peak }: Meter): bigint {
  return counts.reduce((total, next) => {
    const value = next?.[key] ?? 0n;
    return peak ? (value > total ? value : total) : total + value;
  }, 0n);
}

export interface Day {
  /** Midnight UTC. */
  start: Date;
  counts: Counts | undefined;
  closed: boolean;
  /** It has not begun. */
  ahead: boolean;
}

const DAY_MS = 86_400_000;

/** All days of a month, also those in which nothing was counted. */
export function daysOf(month: Date, points: readonly UsagePoint[], now: Date): Day[] {
  const end = nextMonth(month).getTime();
  const by = new Map(points.map((point) => [Number(point.start?.seconds ?? 0n) * 1000, point]));
  const days: Day[] = [];
  for (let at = month.getTime(); at < end; at += DAY_MS) {
    const point = by.get(at);
    days.push({
      start: new Date(at),
      counts: point?.counts,
      closed: point?.closed ?? false,
      ahead: at > now.getTime(),
    });
  }
  return days;
}

/** The first instant of a month in UTC, so many months before. */
export function monthOf(now: Date, before = 0): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - before, 1));
}

export const nextMonth = (month: Date): Date => monthOf(month, -1);

const monthFormat = new Intl.DateTimeFormat("en-US", { month: "long", year: "numeric", timeZone: "UTC" });
const dayFormat = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric", timeZone: "UTC" });

/** "November 2026" */
export const monthText = (month: Date): string => monthFormat.format(month);

/** "Nov 1" */
export const dayText = (day: Date): string => dayFormat.format(day);

/** "November 2026", or its days where it isn't a whole month. */
export function periodText(invoice: Invoice): string {
  const from = dateOf(invoice.periodStart);
  const to = dateOf(invoice.periodEnd);
  if (!from || !to) return "";
  const whole = from.getUTCDate() === 1 && to.getUTCDate() === 1;
  return whole ? monthText(from) : `${dayText(from)} to ${dayText(to)}, ${to.getUTCFullYear()}`;
}

export interface NamespaceUsage {
  id: string;
  /** Empty: it was deleted. */
  name: string;
  totals: Record<string, bigint>;
}

/** What each namespace counted, the one with the most jobs first. */
export function byNamespace(points: readonly UsagePoint[]): NamespaceUsage[] {
  const all = new Map<string, UsagePoint[]>();
  for (const point of points) all.set(point.namespaceId, [...(all.get(point.namespaceId) ?? []), point]);
  return [...all]
    .map(([id, own]) => ({
      id,
      name: own[0]?.namespace ?? "",
      totals: Object.fromEntries(
        meters.map((meter) => [
          meter.key,
          totalOf(
            own.map(({ counts }) => counts),
            meter,
          ),
        ]),
      ),
    }))
    .sort((a, b) => Number((b.totals.jobsEnqueued ?? 0n) - (a.totals.jobsEnqueued ?? 0n)));
}
