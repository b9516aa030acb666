// Makes of dist what the server hands out: every text in its compressed forms beside it,
// made once and as small as can be, and a list of the parts that pages consist of.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));

const scripts = Object.values(manifest).filter(({ file }) => file.endsWith(".js"));
writeFileSync(join(dist, "parts.json"), JSON.stringify([...new Set(scripts.map(({ file }) => `/${file}`))]));

// Below this a header costs more than is saved.
const WORTH_IT = 256;
const texts = /\.(html|js|css|svg|json)$/;

for (const folder of ["", "assets"]) {
  for (const name of readdirSync(join(dist, folder))) {
    if (!texts.test(name)) continue;
    const path = join(dist, folder, name);
    const content = readFileSync(path);
    if (content.length < WORTH_IT) continue;
    const brotli = {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
    };
    writeFileSync(`${path}.br`, brotliCompressSync(content, { params: brotli }));
    writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  }
}
