import { parseSearchWith, stringifySearchWith } from "@tanstack/react-router";
import { describe, expect, it } from "vitest";
import { parseDeadSearch } from "./dead-search";
import { BadSearch, choice, exactJson, oneOf, searchOf, text, texts } from "./search";

describe("the search of an address", () => {
  it("unsets what the page does not know, because the router would hand it through", () => {
    const read = searchOf((raw) => ({ queue: text(raw, "queue") }));
    expect(read({ queue: 42, state: { length: 1 } })).toEqual({ queue: "42", state: undefined });
    expect("state" in read({ state: "x" })).toBe(true);
  });
  it("refuses a value that is not one, and says which would be", () => {
    expect(() => texts("queue")({ queue: { a: 1 } })).toThrow(
      'queue can\'t be “{"a":1}”. Use a single value.',
    );
    const period = () => choice({ period: "99x" }, "period", ["24h", "7d", "30d"]);
    expect(period).toThrow(BadSearch);
    expect(period).toThrow("period can't be “99x”. Use 24h, 7d or 30d.");
  });
  it("takes nothing for nothing", () => {
    expect(texts("queue", "error")({ queue: "", error: " " })).toEqual({
      queue: undefined,
      error: undefined,
    });
    expect(choice({}, "tab", ["policies"])).toBeUndefined();
    expect(oneOf(["a"])).toBe("a");
  });
  it("keeps ids that look like numbers, typed by hand or written by the router", () => {
    const read = parseSearchWith(exactJson);
    const write = stringifySearchWith(JSON.stringify, exactJson);
    for (const group of ["7199254740993123", "00ff000000000000", "12e4567890123456", "1e23456789012345"]) {
      expect(parseDeadSearch(read(`?group=${group}`)), group).toEqual({ queue: undefined, group });
      expect(parseDeadSearch(read(write({ queue: "42", group }))), group).toEqual({ queue: "42", group });
    }
  });
  it("takes a group of dead jobs by its id only", () => {
    expect(() => parseDeadSearch({ group: "out of stamps" })).toThrow("Use the ID of an error group");
    expect(parseDeadSearch({ queue: "emails", error: "boom" })).toEqual({
      queue: "emails",
      group: undefined,
      error: undefined,
    });
  });
});
