import { describe, expect, it } from "vitest";
import { ageProblem, ageText, keptProblem, parseAge, retentionText, typedAge } from "./retention";

describe("ages", () => {
  it("are read as people type them, and shown so that they are read again", () => {
    for (const [text, seconds] of [
      ["90 min", 5400],
      ["12h", 43_200],
      [" 45 d ", 3_888_000],
      ["7d", 604_800],
    ] as const) {
      expect(parseAge(text)).toBe(seconds);
      expect(parseAge(typedAge(seconds))).toBe(seconds);
    }
    for (const text of ["", "7", "week", "-1 d", "1.5 d", "5 s"]) expect(parseAge(text)).toBeUndefined();
    expect(ageText(604_800)).toBe("7 d");
  });

  it("have a least, a most, and the plan's maximum", () => {
    expect(ageProblem(60, 0)).toBeUndefined();
    expect(ageProblem(59, 0)).toContain("1 min");
    expect(ageProblem(3661 * 86_400, 0)).toContain("3,660 d");
    expect(ageProblem(31 * 86_400, 30 * 86_400)).toContain("30 d");
    expect(ageProblem(undefined, 0)).toContain("such as");
  });
});

it("a number over the plan's maximum is a problem", () => {
  expect(keptProblem(1000, 1000)).toBeUndefined();
  expect(keptProblem(5000, 0)).toBeUndefined();
  expect(keptProblem(5000, 1000)).toBe("Your plan keeps at most 1,000.");
  expect(keptProblem(5000, 1000, " MB")).toBe("Your plan keeps at most 1,000 MB.");
  expect(keptProblem(undefined, 0)).toContain("whole number");
});

it("says a retention in one line", () => {
  expect(retentionText({ completed_seconds: 3600, finished_max: 500, events_bytes_max: 64 * 2 ** 20 })).toBe(
    "completed 1 h, at most 500 finished jobs, events 64 MB",
  );
  expect(retentionText({})).toBe("");
});
