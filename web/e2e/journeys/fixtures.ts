// What every journey has: a service on the project's database, a mail server, an
// identity provider. They start once for each project.
import { test as base, type BrowserContext, type Cookie, expect, type Page } from "@playwright/test";
import { Tenant } from "../rig/jobs.ts";
import { MailServer } from "../rig/mail.ts";
import { IdentityProvider } from "../rig/oidc.ts";
import { Postgres } from "../rig/postgres.ts";
import { Service } from "../rig/service.ts";

interface World {
  mail: MailServer;
  service: Service;
  provider: IdentityProvider;
  /** The demo tenant's jobs. */
  demo: Tenant;
  /** The owner's session. */
  kept: { cookies: Cookie[] };
}

/** The owner of the tenant that the service makes by itself. */
export const demoOwner = "demo@corvo.localhost";

export const test = base.extend<{ owner: Page }, World>({
  mail: [
    // biome-ignore lint/correctness/noEmptyPattern: the form that Playwright asks for
    async ({}, use) => {
      const mail = await MailServer.start();
      await use(mail);
      await mail.end();
    },
    { scope: "worker" },
  ],
  service: [
    async ({ mail }, use, info) => {
      const postgres = info.project.metadata.database === "postgres" ? await Postgres.start() : undefined;
      const service = await Service.start({ database: postgres?.url, smtpPort: mail.smtpPort, testPayments: true });
      await use(service);
      await service.end();
      await postgres?.end();
    },
    { scope: "worker", timeout: 120_000 },
  ],
  provider: [
    async ({ service }, use) => {
      const provider = await IdentityProvider.start(service.url);
      await use(provider);
      await provider.end();
    },
    { scope: "worker" },
  ],
  demo: [
    async ({ service }, use) => use(new Tenant(service.variable("CORVO_URL"), service.variable("CORVO_API_KEY"))),
    { scope: "worker" },
  ],
  // biome-ignore lint/correctness/noEmptyPattern: the form that Playwright asks for
  kept: [async ({}, use) => use({ cookies: [] }), { scope: "worker" }],
  // A page of the demo tenant's owner, signed in by a one-time link from the mail: once for
  // all tests, because the service mails one address no more than ten links an hour.
  owner: async ({ page, service, mail, kept }, use) => {
    await page.context().addCookies(kept.cookies);
    if (kept.cookies.length === 0 || !(await signedIn(page, service))) {
      await signIn(page, service, mail, demoOwner);
      kept.cookies = await page.context().cookies();
    }
    await use(page);
  },
});

/** Whether the page's session still lasts: a test may have ended it. */
async function signedIn(page: Page, service: Service): Promise<boolean> {
  await page.goto(service.url);
  const inside = page.getByRole("navigation").first();
  await expect(inside.or(page.getByLabel("Email"))).toBeVisible();
  return inside.isVisible();
}

/** signIn goes the way a person goes: ask for a link, open the mail, follow the link. */
export async function signIn(page: Page, service: Service, mail: MailServer, address: string): Promise<void> {
  const before = await mail.count();
  await page.goto(`${service.url}/signin`);
  await page.getByLabel("Email").fill(address);
  await page.getByRole("button", { name: "Continue", exact: true }).click();
  await page.goto(MailServer.link(await mail.next(address, /sign.in/i, before)));
  await expect(page.getByRole("navigation").first()).toBeVisible();
}

/** At the provider's own development pages: any password does. */
export async function signInAtProvider(page: Page, login: string): Promise<void> {
  await page.locator('input[name="login"]').fill(login);
  await page.locator('input[name="password"]').fill("anything");
  await page.getByRole("button", { name: /sign-in/i }).click();
  await page.getByRole("button", { name: /continue/i }).click();
}

/** What a page asked for and was refused, from now on. */
export function refusals(page: Page): string[] {
  const refused: string[] = [];
  page.on("response", (answer) => {
    // Nobody is signed in yet, which the page asks to know.
    if (answer.status() >= 400 && answer.status() !== 401) refused.push(`${answer.status()} ${answer.url()}`);
  });
  return refused;
}

/** A browser of another person: nothing shared with the test's own. */
export async function otherPerson(page: Page): Promise<{ page: Page; context: BrowserContext }> {
  const browser = page.context().browser();
  if (!browser) throw new Error("the page has no browser");
  const context = await browser.newContext({ viewport: page.viewportSize() });
  return { page: await context.newPage(), context };
}

export { expect, MailServer, Tenant };
