import { describe, expect, it } from "vitest";
import type { JobRow } from "~/data/jobs-api";
import { atWork, hosts } from "./workers";

const now = Date.parse("2026-11-22T06:00:00Z");
const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString();
const worker = (id: string, seen: number, hostname = "fra-1") => ({
  id,
  hostname,
  queues: ["mail"],
  last_heartbeat: ago(seen),
  started_at: ago(900),
});
const job = (id: string, worker_id?: string): JobRow => ({
  id,
  queue: "mail",
  state: "active",
  priority: 2,
  attempt: 1,
  max_retries: 3,
  created_at: ago(60),
  ...(worker_id ? { worker_id } : {}),
});

describe("workers", () => {
  it("says who works, who waits and who has gone quiet, those at work first", () => {
    const list = atWork(
      [worker("gone", 90), worker("w10", 3), worker("w2", 59), worker("busy", 600)],
      [job("a", "busy")],
      now,
    );
    expect(list.map(({ id, state, jobs }) => `${id} ${state} ${jobs.length}`)).toEqual([
      "busy working 1",
      "w2 waiting 0",
      "w10 waiting 0",
      "gone quiet 0",
    ]);
  });
  it("keeps jobs whose worker is not listed, or has no name", () => {
    const list = atWork([], [job("a", "old"), { ...job("b", "old"), queue: "sms" }, job("c")], now);
    expect(
      list.map(({ id, queues, lastSeen, jobs }) => ({ id, queues, lastSeen, jobs: jobs.length })),
    ).toEqual([
      { id: "", queues: ["mail"], lastSeen: undefined, jobs: 1 },
      { id: "old", queues: ["mail", "sms"], lastSeen: undefined, jobs: 2 },
    ]);
  });
  it("counts hosts once each", () => {
    const list = atWork(
      [worker("a", 1), worker("b", 1), worker("c", 1, "fra-2"), worker("d", 1, "")],
      [],
      now,
    );
    expect(hosts(list)).toBe(2);
  });
});
