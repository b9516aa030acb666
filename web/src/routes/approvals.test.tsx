// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { openApp } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const jobOf = (id: string, state: string) => ({
  id,
  queue: "emails",
  state,
  attempt: 0,
  max_retries: 3,
  priority: 2,
  payload: {},
  created_at: "2026-11-22T14:43:15Z",
});

it("a first page whose jobs were all decided is not the end of those that wait", async () => {
  openApp("/acme/production/approvals", ({ path }) => {
    if (path === "/jobs/job_a1") return jobOf("job_a1", "completed");
    if (path === "/jobs/job_b2") return jobOf("job_b2", "held");
    if (!path.startsWith("/jobs?")) return undefined;
    return path.includes("cursor=c1")
      ? { jobs: [jobOf("job_b2", "held")], has_more: false }
      : { jobs: [jobOf("job_a1", "held")], has_more: true, cursor: "c1" };
  });
  await screen.findByText(/None so far/);
  expect(screen.queryByText("No approvals waiting")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  await screen.findByText("job_b2");
});
