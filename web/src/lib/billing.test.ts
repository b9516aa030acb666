import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { EntitlementSchema, LimitStatusSchema, PlanSchema, PriceSchema } from "~/gen/corvo/cloud/v1/plan_pb";
import { CountsSchema, InvoiceLineSchema, UsagePointSchema } from "~/gen/corvo/cloud/v1/usage_pb";
import {
  baseText,
  byNamespace,
  daysOf,
  entitlementText,
  limitFate,
  limitText,
  lineSum,
  type Meter,
  meterOf,
  monthOf,
  monthText,
  priceText,
  quantity,
  shareOf,
  totalOf,
} from "./billing";

const meter = (item: string) => meterOf(item) as Meter;

test("a number of a meter has its unit", () => {
  expect(quantity(meter("jobs_enqueued"), 12_480n)).toBe("12,480");
  expect(quantity(meter("payload_bytes"), 3n * 2n ** 20n)).toBe("3.0 MB");
  expect(quantity(meter("stored_byte_hours"), 2n ** 31n)).toBe("2.0 GB-hours");
});

test("a price says what is included and what more costs", () => {
  const price = create(PriceSchema, {
    meter: "jobs_enqueued",
    included: 1_000_000n,
    per: 1_000_000n,
    amount: 50n,
  });
  expect(priceText(price, "usd")).toBe("1,000,000 jobs included, then $0.50 for every 1,000,000 jobs");
  const storage = create(PriceSchema, { meter: "stored_byte_hours", per: 2n ** 30n * 730n, amount: 25n });
  expect(priceText(storage, "usd")).toBe("$0.25 for every GB-month");
  const sent = create(PriceSchema, {
    meter: "egress_bytes",
    included: 100n * 2n ** 30n,
    per: 2n ** 30n,
    amount: 9n,
  });
  expect(priceText(sent, "usd")).toBe("100 GB included, then $0.09 for every GB");
});

test("a plan's price tells free from pay for what you use", () => {
  const plan = { currency: "usd", selfServe: true };
  expect(baseText(create(PlanSchema, { ...plan, baseAmount: 4900n }))).toBe("$49.00 per month");
  expect(baseText(create(PlanSchema, plan))).toBe("Free");
  expect(
    baseText(create(PlanSchema, { ...plan, prices: [{ meter: "executions", per: 1n, amount: 1n }] })),
  ).toBe("No monthly price, pay for what you use");
  expect(baseText(create(PlanSchema, { currency: "usd" }))).toBe("By agreement");
});

test("a line shows the numbers that it comes from", () => {
  const line = { item: "executions", quantity: 12_480n, included: 10_000n, per: 1_000n, unitAmount: 50n };
  const sum = (part: object) => lineSum(create(InvoiceLineSchema, { ...line, ...part }), "usd");
  expect(sum({})).toBe("(12,480 − 10,000) × $0.50 ÷ 1,000, rounded down");
  expect(sum({ included: 0n })).toBe("12,480 × $0.50 ÷ 1,000, rounded down");
  expect(sum({ quantity: 10_000n })).toBe("Included in the plan");
  expect(sum({ per: 0n })).toBe("");
  expect(sum({ item: "base" })).toMatch(/plan's price/);
});

test("an entitlement is a number with its unit, no limit, or a feature", () => {
  const text = (part: object) => entitlementText(create(EntitlementSchema, part));
  expect(text({ name: "enqueue_per_second", value: 1000n, unit: "jobs/s" })).toBe("1,000/s");
  expect(text({ name: "payload_bytes_max", value: 262_144n, unit: "bytes" })).toBe("256.0 KB");
  expect(text({ name: "retention.dead_seconds_max", value: 7_776_000n, unit: "seconds" })).toBe("90 d");
  expect(text({ name: "keys_max", unlimited: true })).toBe("No limit");
  expect(text({ name: "feature.sso", value: 1n })).toBe("Included");
  expect(text({ name: "feature.sso" })).toBe("Not included");
});

test("a limit says how much is used and what happens when all is", () => {
  const limit = create(LimitStatusSchema, { name: "jobs_per_month_max", used: 12n, max: 60n });
  expect(limitText(limit)).toBe("12 of 60");
  expect(limitText(create(LimitStatusSchema, { used: 12n, unlimited: true }))).toBe("12, no limit");
  expect(limitFate(limit, "hold_dispatch")).toMatch(/accepted and wait/);
  expect(limitFate(limit, "reject_enqueues")).toMatch(/rejected/);
  expect(limitFate({ ...limit, unlimited: true }, "hold_dispatch")).toBe("");
});

test("a share is exact for numbers beyond 2^53 and never more than the whole", () => {
  expect(shareOf(1n, 4n)).toBe(0.25);
  expect(shareOf(2n ** 60n, 2n ** 61n)).toBe(0.5);
  expect(shareOf(5n, 4n)).toBe(1);
  expect(shareOf(0n, 0n)).toBe(0);
  expect(shareOf(1n, 0n)).toBe(1);
});

const at = (text: string) => timestampFromDate(new Date(text));

test("a month has all its days, and knows those to come", () => {
  const points = [
    create(UsagePointSchema, { start: at("2026-02-03T00:00:00Z"), counts: { executions: 7n }, closed: true }),
  ];
  const days = daysOf(new Date("2026-02-01T00:00:00Z"), points, new Date("2026-02-10T12:00:00Z"));
  expect(days).toHaveLength(28);
  expect(days[2]).toMatchObject({ closed: true, ahead: false, counts: { executions: 7n } });
  expect(days.filter(({ ahead }) => ahead)).toHaveLength(18);
  expect(monthOf(new Date("2026-01-31T23:00:00Z"), 1).toISOString()).toBe("2025-12-01T00:00:00.000Z");
  expect(monthText(new Date("2026-02-01T00:00:00Z"))).toBe("February 2026");
});

test("numbers of a namespace add up, and of streams the most counts", () => {
  const point = (namespace: string, jobs: bigint, streams: bigint) =>
    create(UsagePointSchema, {
      namespaceId: `ns_${namespace}`,
      namespace,
      counts: create(CountsSchema, { jobsEnqueued: jobs, streamsPeak: streams }),
    });
  const points = [point("a", 1n, 5n), point("b", 9n, 1n), point("a", 2n, 3n)];
  expect(
    byNamespace(points).map(({ name, totals }) => [name, totals.jobsEnqueued, totals.streamsPeak]),
  ).toEqual([
    ["b", 9n, 1n],
    ["a", 3n, 5n],
  ]);
  expect(
    totalOf(
      points.map(({ counts }) => counts),
      meter("jobs_enqueued"),
    ),
  ).toBe(12n);
});
