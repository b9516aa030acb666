// @vitest-environment happy-dom
import { cleanup, configure, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { openApp } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const nightly = {
  id: "sched_1",
  name: "nightly",
  cron: "0 2 * * *",
  timezone: "UTC",
  queue: "reports",
  payload: null,
  redacted: true,
  overlap: "allow",
  catch_up: "once",
  priority: "normal",
  paused: false,
  missed: 0,
  next_runs: [],
  created_at: "2026-11-21T10:00:00Z",
  updated_at: "2026-11-21T10:00:00Z",
};

it("a schedule whose payload is hidden shows none, and can't be edited", async () => {
  openApp("/acme/production/schedules/sched_1", ({ path }) =>
    path === "/schedules/sched_1" ? nightly : undefined,
  );
  const edit = await screen.findByRole("button", { name: "Edit" });
  expect(edit.getAttribute("aria-disabled")).toBe("true");
  expect(screen.getByText("You don't have permission to see this.")).toBeTruthy();
  expect(screen.queryByRole("region", { name: "Payload" })).toBeNull();
});

it("nor from the list of schedules", async () => {
  openApp("/acme/production/schedules", ({ path }) =>
    path.startsWith("/schedules?") ? { schedules: [nightly] } : undefined,
  );
  const edit = await screen.findByRole("button", { name: "Edit nightly" });
  expect(edit.getAttribute("aria-disabled")).toBe("true");
  expect(screen.getByRole("button", { name: "Pause nightly" }).getAttribute("aria-disabled")).toBeNull();
});
