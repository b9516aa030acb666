import { expect, test } from "vitest";
import { dollars } from "./money";

test("money is shown by the cent, and small money still says something", () => {
  expect(dollars(0)).toBe("$0");
  expect(dollars(12.3456)).toBe("$12.35");
  expect(dollars(1234.5)).toBe("$1,234.50");
  expect(dollars(0.0042)).toBe("$0.0042");
  expect(dollars(0.000000001)).toBe("$0.000000001");
});
