// @vitest-environment happy-dom
import { QueryClient } from "@tanstack/react-query";
import { RouterContextProvider } from "@tanstack/react-router";
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import type { Access } from "~/data/access";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { destinations } from "~/pages";
import { newRouter } from "~/router";
import { SideNav } from "./nav";

afterEach(cleanup);

const access = {
  canSomewhere: (permission: Permission): boolean => permission === Permission.QUEUE_READ,
} as Access;

function showAt(path: string) {
  window.history.replaceState(null, "", path);
  render(
    <RouterContextProvider router={newRouter(new QueryClient())}>
      <SideNav tenant="acme" namespace="production" access={access} />
    </RouterContextProvider>,
  );
  return screen.getByRole("navigation", { name: "Main" });
}

it("lists every page that stands in the navigation, in groups, with its address", () => {
  const nav = showAt("/acme/production/queues");
  const links = within(nav).getAllByRole("link");
  expect(links.map((link) => [link.textContent, link.getAttribute("href")])).toEqual(
    destinations.map(({ title, path }) => [
      title,
      path.replace("$tenant", "acme").replace("$namespace", "production"),
    ]),
  );
  expect(
    within(nav)
      .getAllByRole("list")
      .map((list) => list.getAttribute("aria-labelledby")),
  ).toEqual(["nav-Operate", "nav-Build", "nav-Access", "nav-Settings"]);
});

it.each([
  ["/acme/production", "Overview"],
  ["/acme/production/queues", "Queues"],
  ["/acme/production/jobs/job_1?tab=errors", "Jobs"],
  ["/acme/settings/audit?action=queue.", "Audit log"],
])("at %s the place is %s", (path, title) => {
  const nav = showAt(path);
  expect(
    within(nav)
      .getAllByRole("link", { current: "page" })
      .map((link) => link.textContent),
  ).toEqual([title]);
});

it("what the role may not see is paler, and still a link", () => {
  const nav = showAt("/acme/production");
  expect(within(nav).getByRole("link", { name: "Queues" }).className).not.toMatch(/(^| )text-ink-3/);
  expect(within(nav).getByRole("link", { name: "Members" }).className).toMatch(/(^| )text-ink-3/);
});
