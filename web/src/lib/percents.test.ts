import { expect, test } from "vitest";
import { parsePercents } from "./percents";

test("percentages are up to five different numbers from 1 to 100, in order", () => {
  expect(parsePercents("100, 50 80%")).toEqual([50, 80, 100]);
  expect(parsePercents("")).toEqual([]);
  for (const text of ["0", "101", "50, 50", "1.5", "half", "1,2,3,4,5,6"])
    expect(parsePercents(text), text).toBeUndefined();
});
