import { describe, expect, it } from "vitest";
import { duration, relativeTime, timeUtc } from "./time";

describe("duration", () => {
  it.each([
    [0, 2, "0 ms"],
    [340, 2, "340 ms"],
    [-5, 2, "0 ms"],
    [4_230, 2, "4.2 s"],
    [4_230, 1, "4 s"],
    [65_000, 2, "1 min 5 s"],
    [65_000, 1, "1 min"],
    [3_600_000, 2, "1 h"],
    [90_061_000, 2, "1 d 1 h"],
    [86_404_000, 2, "1 d"],
    [Number.NaN, 2, "unknown"],
  ])("%d ms in %d parts is %s", (ms, parts, text) => {
    expect(duration(ms, parts)).toBe(text);
  });
});

describe("relativeTime", () => {
  it("tells past from future", () => {
    expect(relativeTime(0, 42_000)).toBe("42 s ago");
    expect(relativeTime(42_000, 0)).toBe("in 42 s");
  });
  it("does not count the last seconds, which would flicker", () => {
    expect(relativeTime(1_000, 2_500)).toBe("just now");
  });
});

it("UTC says its zone", () => {
  expect(timeUtc(new Date("2026-11-21T10:34:06.789Z"))).toBe("2026-11-21 10:34:06 UTC");
});
