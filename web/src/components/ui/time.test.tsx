// @vitest-environment happy-dom
import { act, cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Time } from "./time";

const NOON = Date.parse("2026-03-01T12:00:00Z");
beforeEach(() => {
  vi.useFakeTimers({ now: NOON });
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const shown = () => document.querySelector("time")?.textContent;

it("says how long ago it was, and goes on saying so", () => {
  render(<Time at={NOON - 60_000} />);
  const first = shown();
  act(() => vi.advanceTimersByTime(60 * 60_000));
  expect(shown()).not.toBe(first);
  expect(document.querySelector("time")?.dateTime).toBe("2026-03-01T11:59:00.000Z");
});

it.each([
  ["nothing", undefined, undefined, ""],
  ["no time", null, "never", "never"],
  ["an empty time", "", "–", "–"],
  ["no date", "soon", "never", "unknown"],
])("says of %s what it is told", (_, at, none, text) => {
  render(
    <p data-testid="cell">
      <Time at={at} {...(none ? { none } : {})} />
    </p>,
  );
  expect(screen.getByTestId("cell").textContent).toBe(text);
});
