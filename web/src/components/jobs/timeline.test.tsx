// @vitest-environment happy-dom
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { TimelineEvent } from "~/data/jobs-api";
import { Attempts, Timeline } from "./timeline";

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse("2026-03-01T12:01:00Z") });
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const event = (type: string, at: string, attempt?: number) =>
  ({ type, at: `2026-03-01T${at}Z`, ...(attempt ? { attempt } : {}) }) as TimelineEvent;
const failedOnce = [
  event("enqueued", "12:00:00"),
  event("started", "12:00:10", 1),
  event("failed", "12:00:20", 1),
  event("started", "12:00:50", 2),
];

it("an attempt says how it ended and how long it took; one that runs, for how long", () => {
  render(<Attempts events={failedOnce} />);
  const rows = within(screen.getByRole("list", { name: "Attempts" })).getAllByRole("listitem");
  expect(rows.map((row) => row.textContent)).toEqual(["Attempt 1failed in 10 s", "Attempt 2runs for 10 s"]);
});

it("a job that never started has no attempts, and its story all the same", () => {
  const { container } = render(<Attempts events={failedOnce.slice(0, 1)} />);
  expect(container.textContent).toBe("");
  render(<Timeline events={failedOnce} />);
  expect(screen.getAllByRole("listitem")).toHaveLength(4);
});
