// @vitest-environment happy-dom
import { act, cleanup, configure, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { type Call, openApp } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const jobOf = (id: string) => ({
  id,
  queue: "emails",
  state: "pending",
  attempt: 0,
  max_retries: 3,
  priority: 2,
  payload: {},
  created_at: "2026-11-22T14:43:15Z",
});

function answer({ path, method }: Call) {
  const id = /^\/jobs\/(job_\w+)$/.exec(path)?.[1];
  if (id) return method === "DELETE" ? { status: "deleted" } : jobOf(id);
  if (path.endsWith("/events")) return { events: [] };
  if (path.endsWith("/why")) return { reasons: [] };
  return undefined;
}

async function goTo(router: ReturnType<typeof openApp>["router"], job: string) {
  const params = { tenant: "acme", namespace: "production", job };
  await act(() => router.navigate({ to: "/$tenant/$namespace/jobs/$job", params }));
}

it.each(["Delete", "Cancel", "Hold", "Move"])(
  "a dialog (%s) names its job, and closes when another one comes",
  async (verb) => {
    const { router } = openApp("/acme/production/jobs/job_b2", answer);
    // Read before, the other job is there at once.
    await screen.findByRole("button", { name: verb });
    await goTo(router, "job_a1");
    await screen.findByText("job_a1");
    fireEvent.click(await screen.findByRole("button", { name: verb }));
    expect((await screen.findByRole("dialog")).textContent).toContain("job_a1");
    await goTo(router, "job_b2");
    await screen.findByText("job_b2");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  },
);
