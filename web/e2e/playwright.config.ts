import { defineConfig, devices } from "@playwright/test";

const chromium = {
  ...devices["Desktop Chrome"],
  viewport: { width: 1280, height: 800 },
  launchOptions: {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
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
  // Each project has a service of its own; two cores carry one at a time.
  workers: 1,
  fullyParallel: false,
  forbidOnly: Boolean(process.env.CI),
  // A test that passes the second time is a broken test.
  retries: 0,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [["list"]],
  use: { ...chromium, trace: "retain-on-failure", screenshot: "only-on-failure" },
  projects: [
    { name: "sqlite", metadata: { database: "sqlite" } },
    // How a page looks does not hang on the database.
    { name: "postgres", metadata: { database: "postgres" }, testIgnore: "5-pages.spec.ts" },
  ],
});
