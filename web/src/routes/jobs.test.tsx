// @vitest-environment happy-dom
import { act, cleanup, configure, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { type Call, openApp, refused } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const rowOf = (id: string) => ({
  id,
  queue: "emails",
  state: "pending",
  attempt: 0,
  created_at: "2026-11-22T14:43:15Z",
});

it("asks no more for a page that failed, until somebody tries again", async () => {
  let fails = true;
  const { calls } = openApp("/acme/production/jobs", ({ path }: Call) => {
    if (!path.startsWith("/jobs?")) return undefined;
    if (!path.includes("cursor=")) return { jobs: [rowOf("job_a1")], has_more: true, cursor: "c1" };
    return fails ? refused() : { jobs: [rowOf("job_b2")], has_more: false };
  });
  const asked = () => calls.filter(({ path }) => path.includes("cursor=c1")).length;
  const again = await screen.findByRole("button", { name: /Try again/ });
  // As long as a few requests would take.
  await act(() => new Promise((resolve) => setTimeout(resolve, 300)));
  expect(asked()).toBe(1);
  fails = false;
  fireEvent.click(again);
  await screen.findByText("job_b2");
  expect(asked()).toBe(2);
  await waitFor(() => expect(screen.queryByRole("button", { name: /Try again/ })).toBeNull());
});

it("looks through the pages that follow an empty one before it says that there are no jobs", async () => {
  let answer = (_: unknown) => {};
  const second = new Promise((resolve) => {
    answer = resolve;
  });
  openApp("/acme/production/jobs?state=dead", ({ path }: Call) => {
    if (!path.startsWith("/jobs?")) return undefined;
    return path.includes("cursor=c1") ? second : { jobs: [], has_more: true, cursor: "c1" };
  });
  await screen.findByText("Loading more…");
  expect(screen.queryByText("No matching jobs")).toBeNull();
  answer({ jobs: [rowOf("job_b2")], has_more: false });
  await screen.findByText("job_b2");
});
