// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import type { LiveStatus as Status } from "~/data/stream";
import { LiveStatus } from "./live-status";

const live = vi.hoisted(() => ({ useLive: vi.fn() }));
vi.mock("~/data/live", () => live);

afterEach(cleanup);

function show(status: Status, paused = false) {
  const setPaused = vi.fn();
  live.useLive.mockReturnValue({ status, paused, setPaused });
  render(<LiveStatus />);
  return setPaused;
}

it("isn't there where nothing is followed", () => {
  live.useLive.mockReturnValue(null);
  const { container } = render(<LiveStatus />);
  expect(container.childElementCount).toBe(0);
});

it.each<[Status, string]>([
  ["connecting", "Connecting"],
  ["live", "Live"],
  ["reconnecting", "Reconnecting"],
  ["off", "Not live"],
])("%s is announced as %s", (status, word) => {
  show(status);
  expect(screen.getByRole("status").textContent).toBe(word);
});

it("pauses what is live, and resumes what is paused", () => {
  const pause = show("live");
  fireEvent.click(screen.getByRole("button", { name: "Live: pause live updates" }));
  expect(pause).toHaveBeenCalledExactlyOnceWith(true);
  cleanup();
  const resume = show("paused", true);
  fireEvent.click(screen.getByRole("button", { name: "Paused: resume live updates" }));
  expect(resume).toHaveBeenCalledExactlyOnceWith(false);
});
