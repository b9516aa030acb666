import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The public port of a running `corvo-cloud up`, for `npm run dev`.
const backend = process.env.CORVO_DEV_BACKEND ?? "http://127.0.0.1:8080";

// What the shell and the list of jobs are made of is two files: split, each of its thirty
// small parts would be compressed alone, and stand in the list of files that the shell
// carries. Libraries are apart, because they change less often than we do.
const icons =
  "arrow-up|x|info|ban|circle-exclamation-point|circle-check|circle-play|triangle-exclamation-point";
const libraries = new RegExp(
  [
    "/node_modules/(react|react-dom|scheduler|clsx|use-sync-external-store|@tanstack|@connectrpc|@bufbuild)/",
    "/lucide-react/dist/esm/(?!icons/|lucide-react)",
    `/lucide-react/dist/esm/icons/(${icons})\\.`,
    "vite/preload-helper|rolldown/runtime",
  ].join("|"),
);
const parts = "page|field|button|tooltip|toast|kbd|empty|badge|state-badge|skeleton|time|banner";
const base = new RegExp(
  [
    `/src/components/ui/(${parts})\\.tsx`,
    "/src/lib/(numbers|media|states|time|shortcuts)\\.ts",
    "/src/gen/corvo/cloud/v1/(access|auth|tenant|refusal)_pb\\.ts",
    "/src/data/(control|queries|jobs-api|token|access|live|events)\\.tsx?",
  ].join("|"),
);
const groups = [
  { name: "libraries", test: libraries },
  { name: "base", test: base },
];

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
    rolldownOptions: { output: { codeSplitting: { groups } } },
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
