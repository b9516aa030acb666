import { describe, expect, it } from "vitest";
import type { JobState } from "~/lib/states";
import { applyToPages, applyToQueues, decodeEvent, type LiveEvent } from "./events";
import type { JobRow, Queue } from "./jobs-api";

const queue = (name: string): Queue => ({
  name,
  paused: false,
  draining: false,
  etag: "1",
  effective_retention: {},
  inherited_retention: {},
  cancelling: 0,
  created_at: "",
  pending: 1,
  active: 0,
  held: 0,
  completed: 0,
  dead: 0,
  cancelled: 0,
  scheduled: 0,
  retrying: 0,
  enqueued: 1,
  failed: 0,
});
const event = (type: LiveEvent["type"], more: Partial<LiveEvent> = {}): LiveEvent => ({
  seq: 1,
  type,
  at: "2026-11-21T12:00:00Z",
  queue: "a",
  job_id: "j",
  ...more,
});

describe("decodeEvent", () => {
  it("reads nanoseconds and drops the prefix of jobs", () => {
    expect(
      decodeEvent('{"seq":5,"type":"started","at_ns":1795262400000000000,"job_id":"j","queue":"a"}'),
    ).toMatchObject({ seq: 5, type: "started", job_id: "j", at: new Date(1795262400000).toISOString() });
    expect(decodeEvent('{"seq":5,"type":"queue.paused","queue":"a"}')?.type).toBe("queue.paused");
  });
  it.each(["", "{", "[]", "null", '{"seq":"x","type":"y"}', '{"seq":0,"type":""}'])(
    "takes %s for nothing",
    (text) => expect(decodeEvent(text)).toBeNull(),
  );
});

describe("applyToQueues", () => {
  const move = (type: LiveEvent["type"], from: JobState | undefined, state: JobState) =>
    event(type, { data: from ? { from, state } : { state } });
  it("moves a job as each event says", () => {
    const after = applyToQueues(
      [queue("a")],
      [
        move("enqueued", undefined, "pending"),
        move("started", "pending", "active"),
        move("failed", "active", "retrying"),
        move("retrying", undefined, "retrying"),
      ],
    );
    expect(after[0]).toMatchObject({ pending: 1, active: 0, retrying: 1, enqueued: 2, failed: 1 });
  });
  it("counts a job that was scheduled from the start as enqueued", () => {
    expect(applyToQueues([queue("a")], [move("scheduled", undefined, "scheduled")])[0]).toMatchObject({
      scheduled: 1,
      enqueued: 2,
    });
  });
  it("never goes below zero", () => {
    const after = applyToQueues(
      [{ ...queue("a"), pending: 0 }],
      [move("started", "pending", "active"), move("started", "pending", "active")],
    );
    expect(after[0]).toMatchObject({ pending: 0, active: 2 });
  });
  it("leaves other queues the same objects, and the list too if nothing changed", () => {
    const before = [queue("a"), queue("b")];
    const after = applyToQueues(before, [move("started", "pending", "active")]);
    expect(after[1]).toBe(before[1]);
    expect(applyToQueues(before, [event("started", { queue: "unknown" })])).toBe(before);
    expect(applyToQueues(before, [event("progress")])).toBe(before);
  });
  it("pauses and resumes", () => {
    expect(applyToQueues([queue("a")], [event("queue.paused")])[0]?.paused).toBe(true);
  });
});

describe("applyToPages", () => {
  const row = (id: string): JobRow => ({
    id,
    queue: "a",
    state: "pending",
    priority: 2,
    attempt: 0,
    max_retries: 3,
    created_at: "",
  });
  const page = { cursor: "", as_of: "", lag_ms: 0, duration_ms: 0, rebuilding: false };
  const data = {
    pages: [
      { ...page, jobs: [row("j"), row("k")], has_more: true },
      { ...page, jobs: [row("l")], has_more: false },
    ],
    pageParams: [undefined, "c"],
  };
  it("brings rows up to date where they stand", () => {
    const after = applyToPages(data, [
      event("started", { data: { state: "active", attempt: 1 } }),
      event("retrying", { data: { state: "retrying" } }),
    ]);
    expect(after.pages[0]?.jobs.map((job) => job.id)).toEqual(["j", "k"]);
    expect(after.pages[0]?.jobs[0]).toMatchObject({
      state: "retrying",
      attempt: 1,
    });
  });
  it("keeps what did not change", () => {
    const after = applyToPages(data, [event("started", { data: { state: "active" } })]);
    expect(after.pages[1]).toBe(data.pages[1]);
    expect(applyToPages(data, [event("started", { job_id: "zzz" })])).toBe(data);
  });
});
