// Fails the build when the first load of the jobs page outgrows its budget:
// 180 KB of gzipped JavaScript for shell and jobs route, 25 KB of CSS, 60 KB for any other route.
// Prints what is over, and the jobs page; --all prints every page.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const all = process.argv.includes("--all");
const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));

const KB = 1024;
const JOBS = "shell + jobs";
const gzip = (file) => gzipSync(readFileSync(join(dist, file)), { level: 9 }).length;

function closure(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const next of manifest[key].imports ?? []) closure(next, seen);
  return seen;
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const shell = closure(entry);
const js = (keys) =>
  [...keys].reduce(
    (sum, key) => sum + (manifest[key].file.endsWith(".js") ? gzip(manifest[key].file) : 0),
    0,
  );
const css = new Set([...shell].flatMap((key) => manifest[key].css ?? []));

let failed = false;
function hold(name, size, limit) {
  const over = size > limit;
  failed ||= over;
  if (!over && !all && name !== JOBS) return;
  process.stdout.write(
    `${over ? "OVER " : "ok   "} ${name.padEnd(44)} ${(size / KB).toFixed(1).padStart(7)} of ${(limit / KB).toFixed(0)} KB\n`,
  );
}

const lastWord = (key) => key.replace(/^src\//, "").replace(/\.tsx$/, "");
hold(
  "css of the shell",
  [...css].reduce((sum, file) => sum + gzip(file), 0),
  25 * KB,
);
for (const key of Object.keys(manifest)) {
  if (!manifest[key].isDynamicEntry) continue;
  const own = [...closure(key)].filter((part) => !shell.has(part));
  if (key.endsWith("routes/jobs.tsx")) hold(JOBS, js(shell) + js(own), 180 * KB);
  else hold(lastWord(key), js(own), 60 * KB);
}
process.exit(failed ? 1 : 0);
