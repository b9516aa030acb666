import { expect, test } from "vitest";
import { cronWords } from "./cron-words";

test("expressions of five and six fields, and macros, have words", () => {
  expect(cronWords("30 2 * * 1-5")).toBe("At 02:30, Monday through Friday");
  expect(cronWords("*/5 * * * *")).toBe("Every 5 minutes");
  expect(cronWords("*/10 * * * * *")).toBe("Every 10 seconds");
  expect(cronWords("@Daily")).toBe("Every day at midnight");
  expect(cronWords("@every 90s")).toBe("Every 90s");
});

test("what is no expression has none", () => {
  expect(cronWords("")).toBeUndefined();
  expect(cronWords("every day")).toBeUndefined();
  expect(cronWords("99 * * * *")).toBeUndefined();
});
