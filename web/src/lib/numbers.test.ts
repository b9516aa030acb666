import { expect, test } from "vitest";
import { parseLimit, parseWhole } from "./numbers";

test("whole numbers are read only where every reader reads the same", () => {
  for (const [text, value] of [
    ["0", 0n],
    [" 12480 ", 12480n],
    ["12,480", 12480n],
    ["1,000,000", 1_000_000n],
  ] as const)
    expect(parseWhole(text), text).toBe(value);
  for (const text of ["", "10.000", "1.5", "1,5", "1,0000", "10 000", "1e5", "0x10", "-1", "9".repeat(19)])
    expect(parseWhole(text), text).toBeUndefined();
});

test("a limit is nothing, or a whole number above 0", () => {
  expect(parseLimit(" ")).toBe(0);
  expect(parseLimit("10,000")).toBe(10_000);
  for (const text of ["0", "10.000", "ten", "9007199254740993"])
    expect(parseLimit(text), text).toBeUndefined();
});
