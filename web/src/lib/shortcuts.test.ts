import { expect, it } from "vitest";
import { keyOf, Matcher } from "./shortcuts";

const names = ["g q", "g j", "j", "/", "mod+k", "?"];
const event = (key: string, more: Partial<KeyboardEvent> = {}) => ({
  key,
  metaKey: false,
  ctrlKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});

it("follows a sequence, and a key that is also the end of one", () => {
  const matcher = new Matcher();
  expect(matcher.match(names, "g", 0)).toBeNull();
  expect(matcher.match(names, "j", 100)).toBe("g j");
  expect(matcher.match(names, "j", 200)).toBe("j");
});

it("forgets a sequence after a while", () => {
  const matcher = new Matcher();
  matcher.match(names, "g", 0);
  expect(matcher.match(names, "q", 5_000)).toBeNull();
});

it("names keys without regard to case, and chords on every system", () => {
  expect(keyOf(event("K", { metaKey: true }))).toBe("mod+k");
  expect(keyOf(event("k", { ctrlKey: true }))).toBe("mod+k");
  expect(keyOf(event("?", { shiftKey: true }))).toBe("?");
  expect(keyOf(event("Enter"))).toBe("enter");
});
