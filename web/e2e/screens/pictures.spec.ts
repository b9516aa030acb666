// Pictures of every view, by theme and width, and a page to look at them side by side.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { devices, type Page } from "@playwright/test";
import { expect, show, test } from "./fixtures.ts";
import { type View, views } from "./manifest.ts";

const folder = fileURLToPath(new URL("../../../.screens", import.meta.url));
const only = process.env.SCREENS ? new RegExp(process.env.SCREENS) : /./;
const chosen = views.filter((view) => only.test(view.name));
const themes = ["light", "dark"] as const;
const widths = {
  desktop: { viewport: { width: 1440, height: 900 } },
  phone: { ...devices["iPhone 12"], defaultBrowserType: undefined },
} as const;

for (const [width, device] of Object.entries(widths)) {
  test(`pictures: ${width}`, async ({ browser, stage, sessions }) => {
    for (const theme of themes) mkdirSync(join(folder, `${theme}-${width}`), { recursive: true });
    for (const view of chosen) {
      // What a shortcut opens has no way in on a phone.
      if (width === "phone" && view.name === "shortcuts") continue;
      const context = await browser.newContext({ ...device, reducedMotion: "reduce", storageState: sessions[view.as] });
      const page = await context.newPage();
      try {
        await show(page, stage, view);
        if (!view.screenful) await unroll(page);
        for (const theme of themes) {
          await page.emulateMedia({ colorScheme: theme });
          await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
          const path = join(folder, `${theme}-${width}`, `${view.name}.png`);
          await page.screenshot({ path, animations: "disabled", caret: "hide" });
        }
      } catch (err) {
        // The other pictures are worth having.
        console.error(`${view.name}: ${err}`);
        expect.soft(err, view.name).toBeUndefined();
      } finally {
        await context.close();
      }
    }
  });
}

/** A window as high as the page, in which bars stay at its edges. */
async function unroll(page: Page): Promise<void> {
  const size = page.viewportSize();
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  if (size && height > size.height) await page.setViewportSize({ width: size.width, height });
}

test("contact sheet", () => {
  writeFileSync(join(folder, "index.html"), sheet(views));
});

function sheet(all: readonly View[]): string {
  const figure = (view: View, theme: string, width: string) => {
    const path = `${theme}-${width}/${view.name}.png`;
    return `<a href="${path}"><img class="${width}" loading="lazy" src="${path}" alt="${view.name}, ${theme}, ${width}"></a>`;
  };
  const rows = all.map(
    (view) =>
      `<section id="${view.name}"><h2>${view.name}</h2><div>${Object.keys(widths)
        .flatMap((width) => themes.map((theme) => figure(view, theme, width)))
        .join("")}</div></section>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Pages of the console</title>
<style>
  body { font: 14px system-ui, sans-serif; margin: 24px; background: #f2f4f6; color: #14202b; }
  h2 { font: 600 13px ui-monospace, monospace; margin: 28px 0 8px; }
  section > div { display: flex; gap: 12px; align-items: flex-start; overflow-x: auto; }
  img { border: 1px solid #cfd6dc; border-radius: 6px; display: block; }
  .desktop { width: 560px; } .phone { width: 180px; }
</style><h1>Pages of the console</h1>
${rows.join("\n")}
</html>
`;
}
