// Rules that every page keeps, in every state that looks different: see
// screens/manifest.ts.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";
import type axe from "axe-core";
import { type Complaints, complaintsOf, expect, show, test } from "../screens/fixtures.ts";
import { type View, views } from "../screens/manifest.ts";

const desktop = { width: 1280, height: 800 };
const phone = { width: 390, height: 844 };
const narrow = { width: 320, height: 640 };
// The small form: half a megabyte less goes to each page.
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wcag = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

// No test changes what another one sees.
test.describe.configure({ mode: "parallel" });

/** What a change of theme began has reached its end: colours fade, however fast, and those within them after them. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(async () => {
    for (let still = 0; still < 2; still++) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      // One that keeps its last picture is listed although it is finished; some never finish.
      const ending = document
        .getAnimations()
        .filter(({ playState, effect }) => playState === "running" && effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY);
      if (ending.length > 0) still = -1;
      await Promise.allSettled(ending.map((animation) => animation.finished));
    }
  });
}

/** axe's violations on a page, with their elements. */
async function violations(page: Page): Promise<string[]> {
  await settled(page);
  const there = await page.evaluate(() => "axe" in window);
  if (!there) await page.evaluate(`${axeSource}; 0`);
  const { violations } = await page.evaluate(
    (tags) => (window as unknown as { axe: typeof axe }).axe.run({ runOnly: tags, resultTypes: ["violations"] }),
    wcag,
  );
  return violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 160)}\n${node.failureSummary}`));
}

function expectQuiet(complaints: Complaints, view?: View): void {
  // A browser reports every answer of 400 and more, also one that the page is about. And a
  // busy machine may be without a leader for a moment, which a page lives through.
  const expected = view?.refused ? /Failed to load resource/ : /Failed to load resource.* 503 /;
  expect(complaints.filter((text) => !expected.test(text))).toEqual([]);
}

test.describe("every page", () => {
  for (const [n, view] of views.entries()) {
    // Every page has several views: in turn they are light at a desk and dark on a phone,
    // and the other way round.
    const [atDesk, onPhone] = n % 2 === 0 ? (["light", "dark"] as const) : (["dark", "light"] as const);
    test(view.name, async ({ stage, open }) => {
      const page = await open(view.as);
      await page.setViewportSize(desktop);
      await page.emulateMedia({ colorScheme: atDesk });
      const complaints = await complaintsOf(page, stage.service.url);
      await show(page, stage, view);
      await expect(page).toHaveTitle(/ · Corvo$/);
      await expect(page.locator("h1")).toHaveCount(1);
      expect(await violations(page), `${atDesk}, at a desk`).toEqual([]);
      await page.setViewportSize(phone);
      await page.emulateMedia({ colorScheme: onPhone });
      await expect(page.locator("html")).toHaveAttribute("data-theme", onPhone);
      expect(await violations(page), `${onPhone}, on a phone`).toEqual([]);
      await page.setViewportSize(narrow);
      const wider = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      await expect.poll(wider, "pixels to scroll sideways at 320").toBe(0);
      expectQuiet(complaints, view);
    });
  }
});

test.describe("by keyboard", () => {
  test.use({ reducedMotion: "reduce" });
  let page: Page;
  let at: (path: string, shows: string | RegExp) => Promise<void>;

  test.beforeEach(async ({ browser, stage, sessions }) => {
    const context = await browser.newContext({ viewport: desktop, reducedMotion: "reduce", storageState: sessions.owner });
    page = await context.newPage();
    at = (path, shows) => show(page, stage, { name: path, as: "owner", path, shows });
  });
  test.afterEach(() => page.context().close());

  test("the first stop skips to the content", async () => {
    await at("/acme/production/queues", "webhooks.deliver");
    await page.keyboard.press("Tab");
    await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(page.locator("main")).toBeFocused();
  });

  for (const [path, shows] of [
    ["/acme/production/queues", "webhooks.deliver"],
    ["/acme/production/jobs", "emails.send"],
    ["/acme/production/keys", "on-call tooling"],
    ["/acme/settings/sso", "Role"],
  ] as const) {
    test(`Tab reaches everything, and is seen: ${path}`, async () => {
      await at(path, shows);
      const missed = await tabThrough(page);
      expect(missed.unreached, "never focused").toEqual([]);
      expect(missed.unseen, "focused without a mark").toEqual([]);
    });
  }

  test("dialogs take the focus, keep it, and give it back on Escape", async () => {
    await at("/acme/production/keys", "on-call tooling");
    for (const name of ["New key", "Rotate on-call tooling", "Revoke on-call tooling"]) {
      const button = page.getByRole("button", { name });
      await button.focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await expect(dialog.locator(":focus")).toHaveCount(1);
      for (let n = 0; n < 12; n++) await page.keyboard.press("Tab");
      await expect(dialog.locator(":focus")).toHaveCount(1);
      await page.keyboard.press("Escape");
      await expect(dialog).toHaveCount(0);
      await expect(button).toBeFocused();
    }
  });

  test("shortcuts: g q, /, ?, Ctrl+K", async ({ stage }) => {
    await at("/acme/production", "Latest failures");
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await expect(page).toHaveURL(`${stage.service.url}/acme/production/queues`);
    await expect(page.getByRole("heading", { level: 1, name: "Queues" })).toBeVisible();
    await page.keyboard.press("/");
    await expect(page.locator("[data-filter]")).toBeFocused();
    await page.keyboard.type("gq?webhooks");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await page.locator("[data-filter]").blur();
    await page.keyboard.press("?");
    await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await page.keyboard.press("Control+k");
    await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
    await page.keyboard.type("audit");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(`${stage.service.url}/acme/settings/audit`);
    await expect(page.getByRole("dialog")).toHaveCount(0);
  });

  test("who wants less motion gets none", async () => {
    await at("/acme/production/keys", "on-call tooling");
    await page.getByRole("button", { name: "New key" }).click();
    await expect(page.getByRole("dialog")).toBeVisible();
    // An animation of a moment still ends, which somebody may wait for; a transition that
    // takes no time never is, where one of a moment would be on every property of everything.
    const slow = await page.evaluate(() =>
      [...document.querySelectorAll("*")].flatMap((element) => {
        const style = getComputedStyle(element);
        const longest = (durations: string) => Math.max(...durations.split(",").map(Number.parseFloat));
        const [animated, moved] = [longest(style.animationDuration), longest(style.transitionDuration)];
        return animated > 0.01 || moved > 0 ? [`${element.outerHTML.slice(0, 80)}: ${animated} s, ${moved} s`] : [];
      }),
    );
    expect(slow).toEqual([]);
  });
});

test("the URL holds the filters; back, forward and reload follow it", async ({ browser, stage, sessions }) => {
  const context = await browser.newContext({ viewport: desktop, storageState: sessions.owner });
  const page = await context.newPage();
  await show(page, stage, { name: "jobs", as: "owner", path: "/acme/production/jobs", shows: "emails.send" });
  const dead = page.getByRole("search").getByRole("button", { name: "Dead" });
  await dead.click();
  await expect(page).toHaveURL(/state=.*dead/);
  await page.getByLabel("Created", { exact: true }).selectOption({ label: "Last hour" });
  await expect(page).toHaveURL(/within=1h/);
  await expect(page.getByRole("row").filter({ hasText: "emails.send" })).toHaveCount(0);

  await page.goBack();
  await expect(page).not.toHaveURL(/within/);
  await expect(page.getByLabel("Created", { exact: true })).toHaveValue("");
  await page.goBack();
  await expect(dead).toHaveAttribute("aria-pressed", "false");
  await expect(page.getByText("emails.send").first()).toBeVisible();
  await page.goForward();
  await expect(dead).toHaveAttribute("aria-pressed", "true");
  await page.reload();
  await expect(dead).toHaveAttribute("aria-pressed", "true");
  await context.close();
});

/**
 * Presses Tab until every stop that was there at first has had the focus, and returns what never had. Other
 * stops may come meanwhile: parts of the page that load late, rows that a list draws as it scrolls.
 */
async function tabThrough(page: Page): Promise<{ unreached: string[]; unseen: string[] }> {
  const count = await page.evaluate(() => {
    const all = document.querySelectorAll<HTMLElement>("a[href], button, input, select, textarea, [tabindex]");
    const stops = [...all].filter((element) => element.tabIndex >= 0 && !element.matches(":disabled") && element.checkVisibility());
    for (const element of stops) element.dataset.stop = "ahead";
    (document.activeElement as HTMLElement | null)?.blur();
    return stops.length;
  });
  const unseen = new Set<string>();
  let ahead = count;
  for (let n = 0; ahead > 0 && n < 2 * count; n++) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement;
      const outlined = (node: Element, part?: string) => getComputedStyle(node, part).outlineStyle !== "none";
      const marked = (node: Element | null) => node !== null && (outlined(node) || outlined(node, "::after"));
      const known = element.dataset.stop !== undefined;
      if (known) element.dataset.stop = "reached";
      return {
        ahead: document.querySelectorAll("[data-stop=ahead]").length,
        unseen: known && !marked(element) && !marked(element.parentElement),
        html: element.outerHTML.slice(0, 120),
      };
    });
    ahead = stop.ahead;
    if (stop.unseen) unseen.add(stop.html);
  }
  const unreached = await page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("[data-stop=ahead]")].map((element) => element.outerHTML.slice(0, 120)),
  );
  return { unreached, unseen: [...unseen] };
}
