import { defineConfig } from "@playwright/test";
import journeys from "./playwright.config.ts";

/** A sign-in through Keycloak, which services/e2e/keycloak prepares and starts. */
export default defineConfig({
  ...journeys,
  testDir: "keycloak",
  workers: 1,
  projects: [{ name: "keycloak" }],
});
