// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { openApp, refused } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it("invitations that could not be read are a problem, not none", async () => {
  let fails = true;
  openApp("/acme/settings/members", ({ path }) => {
    if (path !== "ListInvitations") return undefined;
    return fails ? refused() : { invitations: [] };
  });
  const problem = await screen.findByRole("alert");
  expect(screen.queryByText(/No pending invitations/)).toBeNull();
  fails = false;
  fireEvent.click(within(problem).getByRole("button", { name: "Try again" }));
  await screen.findByText(/No pending invitations/);
});
