import { expect, it } from "vitest";
import type { LiveEvent } from "~/data/events";
import { advance, type FirstJob } from "./first-job";

let seq = 0;
const event = (type: LiveEvent["type"], job: string, at: string): LiveEvent => ({
  seq: ++seq,
  type,
  at,
  job_id: job,
  queue: "hello",
});
const play = (...events: LiveEvent[]) => events.reduce(advance, {} as FirstJob);

it("ticks each step by its event", () => {
  const done = play(event("enqueued", "a", "T1"), event("started", "a", "T2"), event("completed", "a", "T3"));
  expect(done).toMatchObject({ job: "a", enqueuedAt: "T1", startedAt: "T2", doneAt: "T3" });
});

it("follows the job that got furthest", () => {
  const state = play(event("enqueued", "a", "T1"), event("enqueued", "b", "T2"), event("started", "b", "T3"));
  expect(state.job).toBe("b");
});

it("shows a failure and forgets it when the next attempt begins", () => {
  const failed = play(
    event("enqueued", "a", "T1"),
    event("started", "a", "T2"),
    event("retrying", "a", "T3"),
  );
  expect(failed).toMatchObject({ failedAt: "T3" });
  expect(advance(failed, event("started", "a", "T4")).failedAt).toBeUndefined();
});

it("stays with the job that is done", () => {
  const done = play(event("enqueued", "a", "T1"), event("completed", "a", "T3"));
  expect(advance(done, event("enqueued", "b", "T4"))).toBe(done);
});
