import { timestampDate } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { dayText, endOfDay } from "./day";

it("a day ends in its last second, where the reader is, and is read back as the same day", () => {
  const end = endOfDay("2027-03-09");
  expect(end && timestampDate(end)).toEqual(new Date(2027, 2, 9, 23, 59, 59));
  expect(dayText(end && timestampDate(end))).toBe("2027-03-09");
});

it("no day is no end", () => {
  expect(dayText(undefined)).toBe("");
  expect(endOfDay("")).toBeUndefined();
});
