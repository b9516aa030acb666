import { describe, expect, it } from "vitest";
import type { Job, Queue, TimelineEvent } from "~/data/jobs-api";
import { jobSentence } from "./job-sentence";
import { attention, totals } from "./overview";
import { jobStates } from "./states";
import { attempts, timelineEntries } from "./timeline";

const now = Date.parse("2026-11-21T12:00:00Z");
const at = (seconds: number) => new Date(now + seconds * 1000).toISOString();

const job: Job = {
  id: "job_1",
  queue: "emails",
  state: "pending",
  priority: 2,
  attempt: 2,
  max_retries: 3,
  created_at: at(-60),
  retry_backoff: "exponential",
  retry_base_delay_ms: 5000,
  retry_max_delay_ms: 600000,
  payload: "{}",
};

const queue: Queue = {
  name: "emails",
  paused: false,
  draining: false,
  etag: "1",
  effective_retention: {},
  inherited_retention: {},
  cancelling: 0,
  created_at: at(-999),
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
};

describe("why a job does not run", () => {
  it("has a sentence for every state", () => {
    for (const state of jobStates) expect(jobSentence({ ...job, state }, queue, now).what).toMatch(/[.!?…]$/);
  });
  it("names the pause before anything else", () => {
    expect(jobSentence(job, { ...queue, paused: true }, now).what).toContain("paused");
  });
  it("names the limit that is used up", () => {
    expect(jobSentence(job, { ...queue, max_concurrency: 4, active: 4 }, now).what).toContain(
      "4 active jobs",
    );
  });
  it("suspects a missing worker only after a while", () => {
    expect(jobSentence(job, queue, now).next).toContain("Start one");
    const spent = { code: "budget_spent", message: "A daily budget is spent." };
    expect(jobSentence(job, queue, now, [spent, { code: "no_worker", message: "Nobody asked." }])).toEqual({
      what: spent.message,
    });
    const next = jobSentence(job, queue, now, [{ code: "runs_next", message: "Next." }]).next;
    expect(next ?? "").not.toContain("Start one");
    expect(jobSentence({ ...job, created_at: at(-1) }, queue, now).next ?? "").not.toContain("Start one");
  });
  it("says when a failed attempt is tried again, and why it failed", () => {
    const sentence = jobSentence(
      {
        ...job,
        state: "retrying",
        scheduled_at: at(30),
        errors: [{ id: 1, job_id: job.id, attempt: 2, error: "SMTP 421\nmore", created_at: at(-1) }],
      },
      queue,
      now,
    );
    expect(sentence.what).toBe("Attempt 2 of 3 failed: SMTP 421.");
    expect(sentence.next).toBe("Next attempt in 30 s.");
  });
  it("counts the attempts that failed, also a single one", () => {
    const dead = { ...job, state: "dead" as const, dead_reason: "max_retries" as const, errors: [] };
    expect(jobSentence({ ...dead, max_retries: 3 }, queue, now).what).toBe("All 3 attempts failed.");
    expect(jobSentence({ ...dead, max_retries: 1 }, queue, now).what).toBe("The only attempt failed.");
  });
  it("tells dead by crashes from dead by failures", () => {
    expect(
      jobSentence({ ...job, state: "dead", dead_reason: "crash_loop", crashes: 5 }, queue, now).what,
    ).toContain("5 times");
  });
});

describe("timeline", () => {
  const events: TimelineEvent[] = [
    { seq: 1, type: "enqueued", at: at(0) },
    { seq: 2, type: "started", at: at(1), attempt: 1, worker_id: "w1" },
    { seq: 3, type: "failed", at: at(3), attempt: 1, error: "boom" },
    { seq: 4, type: "retrying", at: at(3) },
    { seq: 5, type: "started", at: at(8), attempt: 2 },
  ];
  it("puts events into words", () => {
    expect(timelineEntries(events).map((entry) => entry.title)).toEqual([
      "Enqueued",
      "Attempt 1 started",
      "Attempt 1 failed",
      "Retry scheduled",
      "Attempt 2 started",
    ]);
    expect(timelineEntries(events)[4]?.gap).toBe("after 5 s");
  });
  it("shows an event that it has no words for by its name", () => {
    expect(
      timelineEntries([{ seq: 1, type: "turned_blue" as TimelineEvent["type"], at: at(0) }])[0]?.title,
    ).toBe("Turned blue");
  });
  it("ends an attempt with its iteration, when an agent job goes on", () => {
    const loop: TimelineEvent[] = [
      { seq: 1, type: "started", at: at(0), attempt: 1 },
      { seq: 2, type: "continued", at: at(4) },
      { seq: 3, type: "started", at: at(5), attempt: 1 },
    ];
    expect(attempts(loop)).toEqual([
      { number: 1, from: at(0), to: at(4), outcome: "completed" },
      { number: 2, from: at(5), outcome: "running" },
    ]);
  });
  it("counts the iterations of an agent job from 1, and attempts within them", () => {
    const loop: TimelineEvent[] = [
      { seq: 1, type: "enqueued", at: at(0) },
      { seq: 2, type: "started", at: at(1), attempt: 1 },
      { seq: 3, type: "continued", at: at(2) },
      { seq: 4, type: "started", at: at(3), attempt: 1 },
      { seq: 5, type: "failed", at: at(4), attempt: 1, error: "boom" },
      { seq: 6, type: "started", at: at(5), attempt: 2 },
      { seq: 7, type: "held", at: at(6) },
      { seq: 8, type: "approved", at: at(7) },
      { seq: 9, type: "started", at: at(8), attempt: 1 },
      { seq: 10, type: "completed", at: at(9), attempt: 1 },
    ];
    const titles = (latest?: number) => timelineEntries(loop, latest).map((entry) => entry.title);
    expect(titles()).toEqual([
      "Enqueued",
      "Iteration 1 started",
      "Iteration 1 completed",
      "Iteration 2 started",
      "Iteration 2 failed",
      "Iteration 2 started, attempt 2",
      "Held",
      "Approved",
      "Iteration 3 started",
      "Iteration 3 completed",
    ]);
    expect(titles(3)).toEqual(titles());
    expect(attempts(loop, 3).map((attempt) => attempt.number)).toEqual([1, 2, 2, 3]);
  });
  it("counts iterations from the latest one, when the first are not kept", () => {
    const loop: TimelineEvent[] = [
      { seq: 1, type: "enqueued", at: at(0) },
      { seq: 2, type: "continued", at: at(60) },
      { seq: 3, type: "started", at: at(61), attempt: 1 },
      { seq: 4, type: "continued", at: at(62) },
    ];
    expect(timelineEntries(loop, 12).map((entry) => entry.title)).toEqual([
      "Enqueued",
      "Iteration 10 completed",
      "Iteration 11 started",
      "Iteration 11 completed",
    ]);
  });
  it("makes attempts of them, the last one open", () => {
    expect(attempts(events)).toEqual([
      { number: 1, worker: "w1", from: at(1), to: at(3), outcome: "failed" },
      { number: 2, from: at(8), outcome: "running" },
    ]);
  });
});

describe("overview", () => {
  it("sums what waits and finds the oldest", () => {
    const sum = totals([
      { ...queue, pending: 2, scheduled: 1, retrying: 1, oldest_pending_at: at(-5) },
      { ...queue, name: "b", pending: 0, active: 3, oldest_pending_at: at(-50) },
    ]);
    expect(sum).toMatchObject({ waiting: 4, active: 3, busy: 1, oldest: at(-50) });
  });
  it("groups by cause, most severe first, and leaves the healthy out", () => {
    const list = attention(
      [
        { ...queue, name: "paused", paused: true },
        { ...queue, name: "dead", dead: 2 },
        { ...queue, name: "stuck", oldest_pending_at: at(-600) },
        { ...queue, name: "older", oldest_pending_at: at(-6000) },
        { ...queue, name: "late", active: 2, oldest_pending_at: at(-6000) },
        { ...queue, name: "fine", active: 2, oldest_pending_at: at(-600) },
      ],
      now,
    );
    expect(list.map((item) => `${item.kind} ${item.queues}`)).toEqual([
      "stuck older,stuck",
      "dead dead",
      "waiting late",
      "paused paused",
    ]);
    expect(list.map((item) => item.title)).toEqual([
      "No workers on 2 queues",
      "2 dead jobs in dead",
      "Long waits in late",
      "paused is paused",
    ]);
  });
});
