import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The public port of a running `corvo-cloud up`, for `npm run dev`.
const backend = process.env.CORVO_DEV_BACKEND ?? "http://127.0.0.1:8080";

// Libraries are apart, because they change less often than we do.
const libraries = new RegExp(
  [
    "/node_modules/(react|react-dom|scheduler|clsx|use-sync-external-store|@tanstack|@connectrpc|@bufbuild)/",
    "/lucide-react/dist/esm/(?!icons/|lucide-react)",
    "vite/preload-helper|rolldown/runtime",
  ].join("|"),
);

// What the shell and the list of jobs are made of is one file: split, each of its small
// parts would be compressed alone, asked for alone, and stand in the shell's list of files.
const firstPage = /\/src\/(main\.tsx|routes\/jobs\.tsx|data\/stream\.ts)$/;

interface Graph {
  getModuleInfo(id: string): { importers: string[] } | null;
}

/** Names the modules that the first page imports, however deep; others have no name. */
function ofFirstPage(name: string) {
  const known = new Map<string, boolean>();
  const needed = (id: string, graph: Graph): boolean => {
    const before = known.get(id);
    if (before !== undefined) return before;
    known.set(id, firstPage.test(id));
    const found =
      firstPage.test(id) || (graph.getModuleInfo(id)?.importers ?? []).some((by) => needed(by, graph));
    known.set(id, found);
    return found;
  };
  return (id: string, graph: Graph) => (needed(id, graph) && !firstPage.test(id) ? name : null);
}

// What opens over a page is made of the same parts everywhere: without groups a dialog
// would come in ten pieces. Lists to choose from are apart, because most pages have none.
const dialogParts = /\/src\/components\/ui\/(dialog|tabs|switch|choice)\.tsx/;
const listParts = /\/node_modules\/@(base-ui|floating-ui)\/|\/src\/components\/ui\/(menu|combobox)\.tsx/;
const shared =
  /\/src\/(lib|data|gen|components)\/(?!.*operator)|\/node_modules\/(lossless-json|lucide-react)\//;
// The dialogs of all pages together are smaller than one page.
const dialogs = /\/src\/(features\/.*-dialog|components\/(confirm|shell|queues))/;
// What pages and dialogs about roles read and write; most pages have neither.
const principals = /\/src\/(gen\/.*\/(principal|review|role)_pb|data\/principal|components\/access)/;
// What the pages about plan and payment read, and the banner above all pages, which waits.
const billing = /\/src\/(gen\/.*\/(plan|usage|billing)_pb|(data|lib)\/billing\.ts)/;
// What the operators' pages read and have in common: no tenant loads it.
const operator =
  /\/src\/(gen\/.*\/operator_pb|(data|lib)\/operator|features\/operator\/(command|plan-fields|refused|words))/;
const groups = [
  { name: "libraries", test: libraries, priority: 50 },
  { name: ofFirstPage("base"), debugName: "base", priority: 40 },
  { name: "popups", test: dialogParts, priority: 31 },
  { name: "lists", test: listParts, priority: 30 },
  { name: "principals", test: principals, priority: 25 },
  { name: "billing", test: billing, priority: 25 },
  { name: "shared", test: shared, priority: 20, minShareCount: 2 },
  { name: "operator", test: operator, priority: 15 },
  { name: "dialogs", test: dialogs, priority: 10 },
];

export default defineConfig({
  test: { include: ["src/**/*.test.{ts,tsx}"], testTimeout: 30_000 },
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
