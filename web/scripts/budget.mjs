// Fails the build when the first page outgrows what is sent for it, or when another page does.
// Sizes are those of the files that scripts/pack.mjs has made: what goes over the wire.
// Prints what is over, and the first page; --all prints every page.
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const all = process.argv.includes("--all");
const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));

const KB = 1024;
const JOBS = "src/routes/jobs.tsx";
// The page asks for it before it rests.
const STREAM = "src/data/stream.ts";
// The letters of the page, and those of ids: compressed as they are.
const FONTS = /(inter|jetbrains-mono)-latin-wght-normal.*woff2$/;
// What opens over a page is made of the same parts everywhere, which come once.
const PARTS = /^_(popups|lists|shared|dialogs)-/;

function sent(file, form) {
  const packed = join(dist, `${file}.${form}`);
  return statSync(existsSync(packed) ? packed : join(dist, file)).size;
}

function closure(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const next of manifest[key].imports ?? []) closure(next, seen);
  return seen;
}

const files = (keys) => [...new Set([...keys].map((key) => manifest[key].file))];
const size = (list, form = "gz") => list.reduce((sum, file) => sum + sent(file, form), 0);

const keys = Object.keys(manifest);
const entry = keys.find((key) => manifest[key].isEntry);
const shell = closure(entry);
const jobs = new Set([...shell, ...closure(JOBS), ...closure(STREAM)]);
const css = [...new Set([...jobs].flatMap((key) => manifest[key].css ?? []))];
const fonts = Object.values(manifest)
  .flatMap(({ file, assets = [] }) => [file, ...assets])
  .filter((file) => FONTS.test(file));
const first = ["index.html", "theme.js", "favicon.svg", ...css, ...new Set(fonts), ...files(jobs)];

let failed = false;
function hold(name, value, limit, unit = KB, word = "KB") {
  const over = value > limit;
  failed ||= over;
  if (!over && !all && !name.startsWith("first page")) return;
  const text = (number) => (number / unit).toFixed(unit === 1 ? 0 : 1).padStart(6);
  process.stdout.write(
    `${over ? "OVER " : "ok   "} ${name.padEnd(40)} ${text(value)} of ${text(limit)} ${word}\n`,
  );
}

hold("first page: scripts, gzip", size(files(jobs)), 185 * KB);
hold("first page: scripts, brotli", size(files(jobs), "br"), 160 * KB);
hold("first page: all bytes, brotli", size(first, "br"), 265 * KB);
hold("first page: files", first.length, 13, 1, "files");
hold("css", size(css), 25 * KB);

const loaded = new Set([...jobs, ...keys.filter((key) => PARTS.test(key))]);
const parts = keys.filter((key) => PARTS.test(key));
hold("parts of dialogs, lists and pages", size(files(parts)), 132 * KB);
for (const key of keys) {
  if (!manifest[key].isDynamicEntry || key === JOBS) continue;
  hold(
    key.replace(/^src\//, "").replace(/\.tsx$/, ""),
    size(files([...closure(key)].filter((part) => !loaded.has(part)))),
    30 * KB,
  );
}
hold(
  "all scripts, brotli",
  size(
    files(keys).filter((file) => file.endsWith(".js")),
    "br",
  ),
  412 * KB,
);
process.exit(failed ? 1 : 0);
