// @vitest-environment happy-dom
import { cleanup, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import type { JobRow } from "~/data/jobs-api";
import { newClient, showAt } from "~/testing/page";
import { JobList } from "./job-list";

afterEach(cleanup);

const scope = { tenant: "acme", namespace: "production" };
const rowOf = (id: string) =>
  ({ id, queue: "emails", state: "pending", attempt: 0, created_at: "2026-11-22T14:43:15Z" }) as JobRow;

async function show(...ids: string[]) {
  await showAt(
    "/acme/production/jobs",
    <>
      <button type="button">Filter</button>
      <JobList scope={scope} rows={ids.map(rowOf)} hasMore={false} loadingMore={false} onMore={vi.fn()} />
    </>,
    newClient(),
  );
  await screen.findByText(ids[0] ?? "");
}

const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });

it("leaves Enter to what has the focus, which j and k move to the link of a job", async () => {
  await show("job_a1", "job_b2");
  screen.getByRole("button", { name: "Filter" }).focus();
  press("j");
  await waitFor(() => expect(document.activeElement).toBe(screen.getByRole("link", { name: "job_a1" })));
  expect(press("Enter")).toBe(true);
  press("j");
  await waitFor(() => expect(document.activeElement?.textContent).toBe("job_b2"));
  press("k");
  await waitFor(() => expect(document.activeElement?.textContent).toBe("job_a1"));
  screen.getByRole("button", { name: "Filter" }).focus();
  expect(press("Enter")).toBe(true);
});
