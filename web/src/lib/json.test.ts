import { expect, it } from "vitest";
import { jsonProblem, member, parseLossless, printLossless, toPlain } from "./json";

it("keeps every digit of numbers that JSON.parse would round", () => {
  const text = '{"id":9007199254740993123,"price":12.500,"tiny":1e-400}';
  expect(printLossless(parseLossless(text), 0).replaceAll(/\s/g, "")).toBe(text);
});

it("finds members of objects only", () => {
  expect(member(parseLossless('{"a":"x"}'), "a")).toBe("x");
  expect(member(parseLossless("[1]"), "0")).toBeUndefined();
  expect(member(parseLossless("3"), "value")).toBeUndefined();
});

it("makes plain numbers of our own fields", () => {
  expect(toPlain(parseLossless('{"attempt":2,"errors":[{"id":1}]}'))).toEqual({
    attempt: 2,
    errors: [{ id: 1 }],
  });
});

it("says what is wrong with JSON", () => {
  expect(jsonProblem('{"a":1}')).toBeNull();
  expect(jsonProblem('{"a":}')).not.toBeNull();
});
