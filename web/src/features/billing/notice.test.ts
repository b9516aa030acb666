import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { GetSubscriptionResponseSchema } from "~/gen/corvo/cloud/v1/plan_pb";
import { GetSpendLimitResponseSchema } from "~/gen/corvo/cloud/v1/usage_pb";
import { noticeOf } from "./notice";

const end = timestampFromDate(new Date("2026-12-01T00:00:00Z"));
const standing = (state: string, ...limits: object[]) =>
  create(GetSubscriptionResponseSchema, { subscription: { state, stateUntil: end, periodEnd: end }, limits });
const spend = (spent: bigint, action: string) =>
  create(GetSpendLimitResponseSchema, { spent, limit: { amount: 50000n, currency: "usd", action } });
const monthly = { name: "jobs_per_month_max", title: "Jobs in a month", max: 1_000_000n, resetsAt: end };

test("a paid tenant within its limits is told nothing", () => {
  expect(noticeOf(standing("active", monthly), spend(49999n, "hold"))).toBeUndefined();
  expect(noticeOf(standing("active"))).toBeUndefined();
});

test("an unpaid invoice says what works, until when, and what follows", () => {
  expect(noticeOf(standing("past_due"))).toMatchObject({
    tone: "warn",
    until: { at: new Date("2026-12-01T00:00:00Z"), after: expect.stringMatching(/API keys/) },
  });
  expect(noticeOf(standing("restricted"))?.until?.after).toMatch(/no job starts/);
  expect(noticeOf(standing("suspended"))).toMatchObject({ tone: "danger", page: "billing" });
});

test("a hold says whether jobs wait or are rejected, and when it ends", () => {
  expect(noticeOf(standing("active", { ...monthly, holds: "dispatch" }))).toMatchObject({
    title: "No job starts because all 1,000,000 jobs of this month are used",
    until: { at: new Date("2026-12-01T00:00:00Z") },
    page: "plan",
  });
  expect(noticeOf(standing("active", { ...monthly, holds: "enqueue" }))?.title).toMatch(
    /^New jobs are rejected/,
  );
});

test("a limit that a bigger plan has no more is told no longer", () => {
  expect(noticeOf(standing("active", { ...monthly, max: 0n, holds: "dispatch" }))).toBeUndefined();
});

test("a spend limit that only alerts holds nothing back", () => {
  expect(noticeOf(standing("active"), spend(50000n, "alert"))).toBeUndefined();
  expect(noticeOf(standing("active"), spend(50000n, "hold"))?.title).toBe(
    "No job starts because the spend limit of $500.00 is reached",
  );
  expect(noticeOf(standing("active"), spend(50001n, "reject"))?.title).toMatch(/^New jobs are rejected/);
});

test("who may not see what is spent is told of the spend limit too, without numbers", () => {
  const held = { name: "spend", title: "Spend limit", holds: "dispatch", resetsAt: end };
  expect(noticeOf(standing("active", held))).toMatchObject({
    title: "No job starts because the spend limit is reached",
    until: { at: new Date("2026-12-01T00:00:00Z") },
    page: "billing",
  });
  expect(noticeOf(standing("active", held), spend(50000n, "hold"))?.title).toMatch(/of \$500.00 is reached$/);
});

test("what stops jobs comes before what may stop them later", () => {
  expect(noticeOf(standing("past_due", { ...monthly, holds: "dispatch" }))?.page).toBe("plan");
  expect(noticeOf(standing("suspended", { ...monthly, holds: "dispatch" }))?.page).toBe("billing");
});
