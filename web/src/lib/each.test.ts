import { expect, test } from "vitest";
import { each } from "./each";

test("each acts on all, eight at most at a time, and answers who failed", async () => {
  const items = Array.from({ length: 20 }, (_, n) => n);
  const acted: number[] = [];
  let now = 0;
  let most = 0;
  const failed = await each(items, async (n) => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    acted.push(n);
    now--;
    if (n % 7 === 3) throw new Error(`not ${n}`);
  });
  expect(acted.sort((a, b) => a - b)).toEqual(items);
  expect(most).toBe(8);
  expect(failed.map(({ item, error }) => `${item}: ${(error as Error).message}`)).toEqual([
    "3: not 3",
    "10: not 10",
    "17: not 17",
  ]);
});
