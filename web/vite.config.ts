import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The public port of a running `corvo-cloud up`, for `npm run dev`.
const backend = process.env.CORVO_DEV_BACKEND ?? "http://127.0.0.1:8080";

export default defineConfig({
  test: { include: ["src/**/*.test.ts"] },
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "~": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: "es2022",
    // dist/.gitkeep must survive a build: the Go module embeds it on a bare clone.
    emptyOutDir: false,
    manifest: ".vite/manifest.json",
    // No data: addresses, so that the content security policy needs none.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: {
      "/corvo.cloud.v1.": backend,
      "/t/": backend,
      "/auth/": backend,
      "/api/v1/": backend,
    },
  },
});
