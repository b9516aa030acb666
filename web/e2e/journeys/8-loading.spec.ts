// How the console comes to the browser: little of it, and what comes later even when
// nobody is there to send it.
import type { CDPSession, Page } from "@playwright/test";
import { expect, test } from "./fixtures.ts";

interface Sent {
  url: string;
  bytes: number;
  encoding: string;
}

/** What the browser was sent, as it counts it. */
async function counted(page: Page): Promise<{ sent: Sent[]; cdp: CDPSession }> {
  const cdp = await page.context().newCDPSession(page);
  const open = new Map<string, Sent>();
  const sent: Sent[] = [];
  cdp.on("Network.responseReceived", ({ requestId, response }) => {
    const headers = Object.fromEntries(Object.entries(response.headers).map(([name, value]) => [name.toLowerCase(), value]));
    open.set(requestId, { url: response.url, bytes: 0, encoding: headers["content-encoding"] ?? "" });
  });
  cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    const file = open.get(requestId);
    if (file && !/\/(t|corvo\.cloud\.v1)[./]/.test(new URL(file.url).pathname)) sent.push({ ...file, bytes: encodedDataLength });
  });
  await cdp.send("Network.enable");
  return { sent, cdp };
}

/** All parts of the console are in the browser. */
async function prefetched(page: Page, url: string): Promise<void> {
  const parts = ((await (await page.request.get(`${url}/parts.json`)).json()) as string[]).length;
  const loaded = () => page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => /\/assets\/.*\.js$/.test(name)).length);
  await expect.poll(loaded, { timeout: 30_000 }).toBeGreaterThanOrEqual(parts);
}

test("the first page is small, compressed, and in few files", async ({ owner, service, demo }) => {
  await demo.enqueue("loading.first", { n: 1 });
  await owner.close();
  const page = await owner.context().newPage();
  // What a page fetches once it is at rest (lib/idle.ts) is no part of it: this one never is.
  await page.addInitScript(() => {
    const later = window.setTimeout;
    window.setTimeout = ((act: TimerHandler, ms?: number) => (ms === 1_500 ? 0 : later(act, ms))) as typeof window.setTimeout;
  });
  const { sent, cdp } = await counted(page);
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.goto(`${service.url}/demo/default/jobs`);
  await expect(page.getByText("loading.first").filter({ visible: true }).first()).toBeVisible();
  const scripts = sent.filter(({ url }) => url.endsWith(".js"));
  expect(scripts.reduce((sum, { bytes }) => sum + bytes, 0), JSON.stringify(scripts)).toBeLessThan(180 * 1024);
  expect(sent.length, JSON.stringify(sent)).toBeLessThanOrEqual(14);
  for (const { url, encoding, bytes } of sent.filter(({ url }) => /\.(js|css)$/.test(url)))
    if (bytes > 2_000) expect(encoding, url).toBe("br");
});

test("with the service out of reach, pages open and say so; then they go on", async ({ owner, service }) => {
  await owner.goto(`${service.url}/demo/default/jobs`);
  await prefetched(owner, service.url);
  await owner.context().setOffline(true);
  const nav = owner.getByRole("navigation").first();
  for (const name of ["Schedules", "Usage", "API keys", "Members"]) {
    await nav.getByRole("link", { name, exact: true }).click();
    await expect(owner.getByText(/Can't reach Corvo|Couldn't reach Corvo/).first(), name).toBeVisible();
    await expect(nav, name).toBeVisible();
  }
  await owner.context().setOffline(false);
  await nav.getByRole("link", { name: "Schedules", exact: true }).click();
  await expect(owner.getByRole("heading", { level: 1, name: "Schedules" })).toBeVisible();
  await expect(owner.getByText("Can't reach Corvo")).toHaveCount(0);
});

test("a part that a deploy has replaced is fetched by one reload, never by a loop of them", async ({ owner, service }) => {
  let loads = 0;
  await owner.route("**/parts.json", (route) => route.abort());
  await owner.route("**/assets/keys-*.js", (route) => route.fulfill({ status: 404, body: "gone" }));
  await owner.goto(`${service.url}/demo/default/jobs`);
  await expect(owner.getByRole("heading", { level: 1 })).toBeVisible();
  owner.on("load", () => loads++);
  await owner.getByRole("navigation").first().getByRole("link", { name: "API keys", exact: true }).click();
  await expect(owner.getByRole("heading", { name: "Couldn't load this page" })).toBeVisible();
  expect(loads).toBe(1);
  await owner.unroute("**/assets/keys-*.js");
  await owner.getByRole("button", { name: "Reload page" }).click();
  await expect(owner.getByRole("heading", { level: 1, name: "API keys" })).toBeVisible();
});
