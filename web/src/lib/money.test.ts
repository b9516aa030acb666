import { expect, test } from "vitest";
import { currencySign, dollars, money, parseMoney, typedMoney } from "./money";

test("money is shown by the cent, and small money still says something", () => {
  expect(dollars(0)).toBe("$0");
  expect(dollars(12.3456)).toBe("$12.35");
  expect(dollars(1234.5)).toBe("$1,234.50");
  expect(dollars(0.0042)).toBe("$0.0042");
  expect(dollars(0.000000001)).toBe("$0.000000001");
});

test("what is billed is exact in the currency's smallest unit, however large", () => {
  expect(money(0n, "usd")).toBe("$0.00");
  expect(money(5n, "usd")).toBe("$0.05");
  expect(money(-120050n, "usd")).toBe("-$1,200.50");
  expect(money(9_007_199_254_740_993n, "usd")).toBe("$90,071,992,547,409.93");
  expect(money(1200n, "jpy")).toBe("¥1,200");
});

test("money is typed and read back without a float", () => {
  expect(typedMoney(120050n, "usd")).toBe("1200.50");
  expect(typedMoney(1200n, "jpy")).toBe("1200");
  for (const [text, amount] of [
    ["200", 20000n],
    ["0.5", 50n],
    [" 1,200.50 ", 120050n],
    ["90071992547409.93", 9_007_199_254_740_993n],
  ] as const)
    expect(parseMoney(text, "usd")).toBe(amount);
  for (const text of ["", "0", "0.00", "-5", "1.234", "1,20", "$5", "1e3", "99999999999999999999"])
    expect(parseMoney(text, "usd"), text).toBeUndefined();
  expect(parseMoney("1.5", "jpy")).toBeUndefined();
  expect(currencySign("usd")).toBe("$");
});
