// @vitest-environment happy-dom
import { QueryClient } from "@tanstack/react-query";
import { expect, it } from "vitest";
import { destinations, entryPages, isEntry, pages } from "./pages";
import { newRouter } from "./router";

const rows = Object.values(pages);

it("every page has an address of its own, and the router knows it", () => {
  const { routesByPath } = newRouter(new QueryClient());
  const paths = rows.map((row) => row.path);
  expect(new Set(paths).size).toBe(paths.length);
  for (const path of paths) expect(Object.keys(routesByPath)).toContain(path);
});

it("no two places in the navigation share a shortcut, an icon or a title", () => {
  for (const name of ["shortcut", "icon", "title"] as const) {
    const values = destinations.map((destination) => destination[name]);
    expect(new Set(values).size, name).toBe(values.length);
  }
});

it("a place in the navigation is reached by tenant and namespace alone", () => {
  for (const { path } of destinations)
    expect(path.replace("$tenant", "").replace("$namespace", "")).not.toContain("$");
});

it("pages before the sign-in are known by their whole first word", () => {
  for (const path of ["/", ...Object.values(entryPages).map((page) => page.path)])
    expect(isEntry(path), path).toBe(true);
  for (const path of [
    "/signal",
    "/signal/production/jobs",
    "/signin-team/settings/sso",
    "/device2",
    "/acme/signin",
  ])
    expect(isEntry(path), path).toBe(false);
});

// Not a static import: the journeys are a package of their own.
it("every page has its views, for axe and for the pictures", async () => {
  const manifest = "../e2e/screens/manifest.ts";
  const { viewsOf } = (await import(/* @vite-ignore */ manifest)) as { viewsOf: Record<string, unknown[]> };
  const { frame, ...ofPages } = viewsOf;
  expect(frame).not.toHaveLength(0);
  expect(Object.keys(ofPages).sort()).toEqual(Object.keys(pages).sort());
  for (const [page, views] of Object.entries(ofPages)) expect(views, page).not.toHaveLength(0);
});
