import { expect, test } from "vitest";
import { errorGroups, errorPattern } from "./error-groups";

test("errors that differ in ids and numbers are one", () => {
  expect(errorPattern("order 48213 not found")).toBe(errorPattern("order 7 not found"));
  expect(errorPattern("job_06h5k failed at 0x1f")).toBe(errorPattern("job_9zz failed at 0xabc"));
  expect(errorPattern("POST https://hooks.partner-2.example: 410 Gone")).toBe(
    errorPattern("POST https://hooks.partner-11.example: 410 Gone"),
  );
  expect(errorPattern("row 3f2504e0-4f89-41d3-9a0c-0305e82c3301 locked")).toBe("row … locked");
});

test("a status tells errors apart", () => {
  expect(errorPattern("answered 503")).not.toBe(errorPattern("answered 410"));
});

test("only the first line counts", () => {
  expect(errorPattern("boom\n  at a.ts:1")).toBe("boom");
});

test("the largest group comes first, and keeps the text as it was", () => {
  const rows = ["gone 1", "odd", "gone 2", undefined].map((last_error) => (last_error ? { last_error } : {}));
  const groups = errorGroups(rows);
  expect(groups.map((group) => [group.sample, group.rows.length])).toEqual([
    ["gone 1", 2],
    ["odd", 1],
    ["", 1],
  ]);
});
