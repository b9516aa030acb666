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

const emails = {
  name: "emails",
  enqueued: 9,
  pending: 0,
  scheduled: 0,
  retrying: 0,
  held: 0,
  active: 0,
  dead: 0,
  completed: 4,
  cancelled: 0,
};

const open = (queues: unknown) =>
  openApp("/acme/production", ({ path }) => (path === "/queues" ? queues : undefined));
const waiting = async () => (await screen.findByRole("link", { name: /^Waiting/ })).textContent;

it("jobs that wait for their time are waiting jobs, too", async () => {
  open([{ ...emails, scheduled: 5 }]);
  await screen.findByText("5");
  expect(await waiting()).toBe("Waiting5Pending, scheduled or retrying");
});

it("says that there are none only once that is known", async () => {
  let answer = (_: unknown) => {};
  open(
    new Promise((resolve) => {
      answer = resolve;
    }),
  );
  expect(await waiting()).toBe("Waiting");
  expect(screen.queryByText("No dead jobs")).toBeNull();
  answer([emails]);
  await screen.findByText("No jobs waiting");
  await screen.findByText("No dead jobs");
});
