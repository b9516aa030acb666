import { expect, it } from "vitest";
import type { Minute } from "~/data/page-api";
import { rate } from "./throughput";

const minutes: Minute[] = [
  { minute: "2026-11-22T06:00:00Z", enqueued: 4, completed: 0, failed: 0 },
  { minute: "2026-11-22T06:01:00Z", enqueued: 8, completed: 3, failed: 0 },
  { minute: "2026-11-22T06:02:00Z", enqueued: 2, completed: 1, failed: 0 },
];

it("tells the last minute that is over, the peak, the sum and heights", () => {
  expect(rate(minutes, "enqueued")).toEqual({
    last: 8,
    running: 2,
    peak: 8,
    total: 14,
    bars: [0.5, 1, 0.25],
  });
  expect(rate(minutes, "completed")).toMatchObject({ last: 3, total: 4 });
});

it("has flat bars where nothing happened, and none without minutes", () => {
  expect(rate(minutes, "failed")).toEqual({ last: 0, running: 0, peak: 0, total: 0, bars: [0, 0, 0] });
  expect(rate([], "failed")).toEqual({ last: 0, running: 0, peak: 0, total: 0, bars: [] });
});
