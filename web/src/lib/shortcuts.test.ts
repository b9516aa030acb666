// @vitest-environment happy-dom
import { cleanup, fireEvent, renderHook } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { keyOf, Matcher, type Shortcuts, useShortcuts } from "./shortcuts";

afterEach(cleanup);

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

it("follows a sequence whose end is a key of another part of the page", () => {
  const retry = vi.fn();
  const goToRoles = vi.fn();
  const use = (shortcuts: Shortcuts) => renderHook(() => useShortcuts(shortcuts));
  // The page is there before the frame around it, which is how React mounts them.
  use({ r: retry });
  use({ "g r": goToRoles });
  fireEvent.keyDown(document.body, { key: "g" });
  fireEvent.keyDown(document.body, { key: "r" });
  expect(goToRoles).toHaveBeenCalledOnce();
  expect(retry).not.toHaveBeenCalled();
  fireEvent.keyDown(document.body, { key: "r" });
  expect(retry).toHaveBeenCalledOnce();
});

it("knows no key of a part that is gone", () => {
  const retry = vi.fn();
  const { unmount } = renderHook(() => useShortcuts({ r: retry }));
  unmount();
  expect(fireEvent.keyDown(document.body, { key: "r" })).toBe(true);
  expect(retry).not.toHaveBeenCalled();
});
