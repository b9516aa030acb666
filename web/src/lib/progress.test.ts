import { describe, expect, it } from "vitest";
import { progressOf } from "./progress";

describe("progress", () => {
  it.each([
    ['{"done":2,"of":3,"width":640}', 2 / 3, "2 of 3"],
    ['{"current":1500,"total":3000}', 0.5, "1,500 of 3,000"],
    ['{"percent":40}', 0.4, ""],
    ["40", 0.4, ""],
    ["0.4", 0.4, ""],
    ['{"progress":1}', 1, ""],
    ['{"done":9,"total":3}', 1, "9 of 3"],
  ])("draws %s", (json, share, text) => expect(progressOf(json)).toMatchObject({ share, text }));
  it("tells what the worker is at", () =>
    expect(progressOf('{"step":1,"steps":4,"message":"encoding"}')?.note).toBe("encoding"));
  it.each([undefined, "not json", '"half"', "[1]", "{}", '{"total":0,"done":0}', "1000", "null"])(
    "leaves %s to be read as it is",
    (json) => expect(progressOf(json)).toBeUndefined(),
  );
});
