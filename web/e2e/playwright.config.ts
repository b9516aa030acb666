import { defineConfig, devices } from "@playwright/test";
import { browser } from "./rig/browser.ts";

const chromium = {
  ...devices["Desktop Chrome"],
  viewport: { width: 1280, height: 800 },
  launchOptions: {
    executablePath: browser,
    // As root there is no sandbox; the rest keeps the browser from calling home.
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  },
};

export default defineConfig({
  testDir: "journeys",
  outputDir: "../../.screens/failures",
  // Each worker has a service of its own: journeys wait for much, and two cores carry two.
  workers: 2,
  fullyParallel: false,
  forbidOnly: Boolean(process.env.CI),
  // A test that passes the second time is a broken test.
  retries: 0,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [["list"]],
  // A trace of every journey, kept or not, costs a third of the time: ask for it with
  // TEST_FLAGS="--trace retain-on-failure" where a picture does not tell what is wrong.
  use: { ...chromium, trace: "off", screenshot: "only-on-failure" },
  projects: [
    { name: "sqlite", metadata: { database: "sqlite" } },
    // What the database has a part in: accounts, tenants, members, keys, namespaces, single
    // sign-on, the audit log. The store's own suite proves that both databases behave the same;
    // here the whole service runs on the second one. Not how pages look and load (5, 8), and
    // not jobs (7), whose service writes nothing into it but sessions and entries as of 3.
    { name: "postgres", metadata: { database: "postgres" }, testMatch: /(1-signup|2-console|3-team|4-sso|6-terraform)\.spec\.ts/ },
  ],
});
