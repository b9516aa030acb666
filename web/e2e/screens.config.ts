import { defineConfig } from "@playwright/test";
import journeys from "./playwright.config.ts";

/** Pictures of every view; see screens/manifest.ts. */
export default defineConfig({
  ...journeys,
  testDir: "screens",
  timeout: 900_000,
  use: { ...journeys.use, trace: "off", screenshot: "off" },
  projects: [{ name: "screens", metadata: { database: "sqlite" } }],
});
