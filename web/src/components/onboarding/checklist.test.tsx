// @vitest-environment happy-dom
import { cleanup, screen, within } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import type { FirstJob } from "~/lib/first-job";
import { showAt } from "~/testing/page";
import { Checklist } from "./checklist";

afterEach(cleanup);

const scope = { tenant: "acme", namespace: "production" };
const enqueued = { job: "job_1", queue: "emails", enqueuedAt: "2026-03-01T12:00:00Z" };
const started = { ...enqueued, startedAt: "2026-03-01T12:00:02Z" };

async function show(first: FirstJob, status: "live" | "connecting" = "live") {
  await showAt("/acme/production/start", <Checklist scope={scope} status={status} first={first} />);
  return screen.getByRole("region", { name: "Progress of your first job" });
}

const marks = (list: HTMLElement) =>
  within(list)
    .getAllByRole("listitem")
    .map((item) => /^(Done|Failed|Not yet)/.exec(item.textContent ?? "")?.[0]);

it.each<[string, FirstJob, string, number]>([
  ["nothing came", {}, "Waiting for your first request", 0],
  ["it is stored", enqueued, "Waiting for a worker", 2],
  ["it runs", started, "After 2 s in the queue", 3],
  ["it is done", { ...started, doneAt: "2026-03-01T12:00:05Z" }, "In 3 s", 5],
])("%s: so much is ticked", async (_, first, says, done) => {
  const list = await show(first);
  expect(marks(list)).toEqual(Array.from({ length: 5 }, (_, at) => (at < done ? "Done" : "Not yet")));
  expect(list.textContent).toContain(says);
  expect(list.textContent).toContain(`${done} of 5`);
});

it("an attempt that failed is told, and that it is tried again", async () => {
  const list = await show({ ...started, failedAt: "2026-03-01T12:00:03Z" });
  expect(marks(list)).toEqual(["Done", "Done", "Done", "Failed", "Not yet"]);
  expect(list.textContent).toContain("The attempt failed and will be retried");
});

it("it doesn't ask for a request before it would see one", async () => {
  const list = await show({}, "connecting");
  expect(list.textContent).not.toContain("Waiting for your first request");
});

it("the job can be opened once there is one, and the end says how long it took", async () => {
  const list = await show({ ...started, doneAt: "2026-03-01T12:00:05Z" });
  expect(list.textContent).toContain("It took 5 s from enqueue to done.");
  for (const name of ["job_1", "Open job"])
    expect(within(list).getByRole("link", { name }).getAttribute("href")).toBe("/acme/production/jobs/job_1");
});
