import { expect, test } from "vitest";
import type { Schedule } from "~/data/page-api";
import { formOf, problemsOf, settingsOf } from "./schedule-form";
import { editBlocked } from "./schedule-verbs";
import { parseTags } from "./tags";

const nightly: Schedule = {
  id: "sched_1",
  name: "nightly",
  cron: "0 2 * * *",
  timezone: "Europe/Berlin",
  queue: "reports",
  paused: true,
  payload: '{"big":9007199254740993}',
  jitter: "30s",
  tags: { team: "ops" },
  overlap: "allow",
  catch_up: "once",
  priority: "normal",
  missed: 0,
  created_at: "2026-11-21T10:00:00Z",
  updated_at: "2026-11-21T10:00:00Z",
  last_run_at: null,
  next_run_at: "2026-11-22T01:00:00Z",
  next_runs: ["2026-11-22T01:00:00Z"],
};

test("a schedule goes through its form unchanged", () => {
  const form = formOf(nightly, "UTC");
  expect(problemsOf(form)).toEqual({});
  expect(settingsOf(form, nightly)).toMatchObject({
    name: "nightly",
    paused: true,
    payload: '{"big":9007199254740993}',
    jitter: "30s",
    tags: { team: "ops" },
  });
  expect(settingsOf(form, nightly)).not.toHaveProperty("next_runs");
  expect(settingsOf(form, nightly)).not.toHaveProperty("id");
});

test("what the form empties is gone, what it does not know stays", () => {
  const was = { ...nightly, retry_backoff: "fixed" } as Schedule;
  const told = settingsOf({ ...formOf(was, "UTC"), jitter: "", tags: "" }, was);
  expect(told).not.toHaveProperty("jitter");
  expect(told).not.toHaveProperty("tags");
  expect(told).toHaveProperty("retry_backoff", "fixed");
});

test("a schedule whose payload is hidden can't be edited, for the payload would be another one", () => {
  expect(editBlocked(nightly)).toBeUndefined();
  expect(editBlocked(undefined)).toBeUndefined();
  const hidden = { ...nightly, redacted: true };
  expect(editBlocked(hidden)).toContain("payload");
  expect(settingsOf(formOf(hidden, "UTC"), hidden)).not.toHaveProperty("redacted");
});

test("an empty form says what is missing, field by field", () => {
  expect(Object.keys(problemsOf(formOf(undefined, "UTC")))).toEqual(["name", "cron", "queue"]);
  expect(problemsOf({ ...formOf(nightly, "UTC"), payload: "{", tags: "x", max_retries: "0" })).toMatchObject({
    payload: expect.any(String),
    tags: expect.any(String),
    max_retries: expect.any(String),
  });
});

test("tags are key:value, and a value may hold a colon", () => {
  expect(parseTags("a:1, url:http://x ,")).toEqual({ a: "1", url: "http://x" });
  expect(parseTags("a")).toBeNull();
  expect(parseTags(":a")).toBeNull();
});
