// @vitest-environment happy-dom
import { act, cleanup, configure, fireEvent, screen, waitFor, within } from "@testing-library/react";
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

/** As it comes to somebody without payload.read. */
const hidden = {
  ...jobOf("job_a1"),
  state: "dead",
  payload: null,
  errors: [{ id: 1, attempt: 1, error: "", created_at: "2026-11-22T14:43:15Z" }],
  agent: { iteration: 2, status: "continue", total_cost_usd: 0 },
  redacted: true,
};
const iteration = {
  id: 1,
  iteration: 1,
  status: "continue",
  cost_usd: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_tokens: 0,
  cache_read_tokens: 0,
  created_at: "2026-11-22T14:43:15Z",
  redacted: true,
};

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

it.each(["payload", "result", "errors", "iterations"])(
  "says what the reader may not see of a job (%s), in place of a value that is none",
  async (tab) => {
    openApp(`/acme/production/jobs/job_a1?tab=${tab}`, (call) => {
      if (call.path === "/jobs/job_a1") return hidden;
      if (call.path.startsWith("/jobs/job_a1/iterations")) return { iterations: [iteration] };
      return answer(call);
    });
    const panel = await screen.findByRole("tabpanel");
    await within(panel).findByText("You don't have permission to see this.");
    expect(panel.textContent).not.toMatch(/null|No result yet/);
  },
);

it("doesn't say that an iteration left no checkpoint where it is hidden", async () => {
  openApp("/acme/production/jobs/job_a1?tab=iterations", (call) => {
    if (call.path === "/jobs/job_a1") return hidden;
    if (call.path.startsWith("/jobs/job_a1/iterations")) return { iterations: [iteration] };
    return answer(call);
  });
  fireEvent.click(await screen.findByRole("button", { name: "Replay from iteration 1" }));
  const dialog = await screen.findByRole("dialog");
  expect(dialog.textContent).not.toContain("no checkpoint");
});
