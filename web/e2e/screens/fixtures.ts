// What looking at pages needs: a service with a company in it, and people signed in.
import { type Browser, type BrowserContext, type BrowserContextOptions, expect, type Page, test as base } from "@playwright/test";
import { signIn, signInAtProvider } from "../journeys/fixtures.ts";
import { NameServer } from "../rig/dns.ts";
import { MailServer } from "../rig/mail.ts";
import { IdentityProvider } from "../rig/oidc.ts";
import { Control, seed, signUpLink, tokenOf } from "../rig/seed.ts";
import { Service } from "../rig/service.ts";
import { totp } from "../rig/totp.ts";
import type { Stage, View, Who } from "./manifest.ts";

type Session = NonNullable<BrowserContextOptions["storageState"]>;

interface World {
  stage: Stage;
  sessions: Record<Who, Session | undefined>;
  contexts: Map<Who, BrowserContext>;
}

interface Opened {
  /** Opens a page of somebody for the time of the test. */
  open: (who: Who) => Promise<Page>;
}

export const test = base.extend<Opened, World>({
  stage: [
    // biome-ignore lint/correctness/noEmptyPattern: the form that Playwright asks for
    async ({}, use) => {
      const mail = await MailServer.start();
      const dns = await NameServer.start();
      const service = await Service.start({ smtpPort: mail.smtpPort, dns: dns.address });
      const provider = await IdentityProvider.start(service.url);
      await use({ service, mail, provider, seed: await seed({ service, mail, provider, dns }) });
      await provider.end();
      await service.end();
      await mail.end();
      await dns.end();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  sessions: [
    async ({ browser, stage }, use) => {
      const page = await signedIn(browser, stage, stage.seed.owner);
      await tryAndSwitchOn(page, stage, stage.seed.tenant);
      await tryAndSwitchOn(page, stage, stage.seed.enforced);
      const viewer = await sessionOf(await signedIn(browser, stage, stage.seed.viewer));
      const barred = await sessionOf(await signedIn(browser, stage, stage.seed.barred));
      const colleague = await throughProvider(browser, stage);
      await enforce(page, stage);
      const owner = await sessionOf(page);
      const operator = await asOperator(browser, stage);
      await use({ nobody: undefined, owner, viewer, barred, colleague: await sessionOf(colleague), operator });
    },
    { scope: "worker", timeout: 90_000 },
  ],
  // Pages of one person share what the browser has fetched and compiled, which is half the
  // time of a page. Nobody's visits are each a stranger's: sign-up leaves a cookie.
  contexts: [
    async ({ browser, sessions }, use) => {
      const contexts = new Map<Who, BrowserContext>();
      for (const who of ["owner", "viewer", "barred", "colleague", "operator"] as const)
        contexts.set(who, await browser.newContext({ reducedMotion: "reduce", storageState: sessions[who] }));
      await use(contexts);
      for (const context of contexts.values()) await context.close();
    },
    { scope: "worker" },
  ],
  open: async ({ browser, contexts }, use) => {
    const opened: Page[] = [];
    await use(async (who) => {
      const context = contexts.get(who) ?? (await browser.newContext({ reducedMotion: "reduce" }));
      opened.push(await context.newPage());
      return opened.at(-1) as Page;
    });
    for (const page of opened) await ([...contexts.values()].includes(page.context()) ? page.close() : page.context().close());
  },
});

async function signedIn(browser: Browser, stage: Stage, address: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await signIn(page, stage.service, stage.mail, address);
  return page;
}

async function sessionOf(page: Page): Promise<Session> {
  const { cookies } = await page.context().storageState();
  await page.context().close();
  return { cookies, origins: [] };
}

/** An operator of the service, who is in a tenant of their own and has a second factor. */
async function asOperator(browser: Browser, stage: Stage): Promise<Session> {
  const { service, mail } = stage;
  const address = "olga@example.com";
  const token = tokenOf(await signUpLink(service, mail, address, "operations"));
  await new Control(service.url).call("SignupService/Confirm", { token });
  service.nameOperator(address, "admin");
  const page = await signedIn(browser, stage, address);
  const call = async (method: string, data: object) => {
    const answer = await page.request.post(`${service.url}/corvo.cloud.v1.FactorService/${method}`, { headers: { Origin: service.url }, data });
    if (!answer.ok()) throw new Error(`${method}: ${await answer.text()}`);
    return (await answer.json()) as { factorId: string; secret: string };
  };
  const { factorId, secret } = await call("StartTotp", {});
  await call("FinishTotp", { factorId, code: totp(secret), name: "Phone" });
  return sessionOf(page);
}

/** A tenant's single sign-on has been tried, and is on. */
async function tryAndSwitchOn(page: Page, { service }: Stage, tenant: string): Promise<void> {
  await page.goto(`${service.url}/${tenant}/settings/sso`);
  await page.context().clearCookies({ name: /^_/ }); // The provider's, which remembers people.
  const opened = page.waitForEvent("popup");
  await page.getByRole("button", { name: "Test sign-in" }).click();
  const trial = await opened;
  await signInAtProvider(trial, "ada");
  await expect(page.getByText("It works")).toBeVisible();
  await page.getByRole("button", { name: "Turn on" }).click();
  await expect(page.getByRole("button", { name: "Turn off" })).toBeVisible();
}

/** An owner of the strict tenant who came through its identity provider: it needs one. */
async function throughProvider(browser: Browser, { service, seed }: Stage): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${service.url}/auth/oidc/start?tenant=${seed.enforced}`);
  await signInAtProvider(page, "ada");
  await expect(page.getByRole("navigation").first()).toBeVisible();
  return page;
}

/** The strict tenant requires single sign-on. Its break-glass codes, which that needs, no key can make. */
async function enforce(page: Page, { service, seed }: Stage): Promise<void> {
  const tenant = seed.enforced;
  const call = async (method: string, data: object) => {
    const answer = await page.request.post(`${service.url}/corvo.cloud.v1.PolicyService/${method}`, { headers: { Origin: service.url }, data });
    if (!answer.ok()) throw new Error(`${method}: ${await answer.text()}`);
  };
  await call("CreateBreakGlassCodes", { tenant });
  const policy = { requireSso: true, sessionIdleSeconds: "7200", keyNetworksRequired: true };
  await call("UpdateSignInPolicy", { tenant, policy, updateMask: "requireSso,sessionIdleSeconds,keyNetworksRequired" });
}

/** show opens a view and waits until it has loaded what it shows, fonts included. */
export async function show(page: Page, stage: Stage, view: View): Promise<void> {
  const path = typeof view.path === "string" ? view.path : await view.path(stage);
  await page.goto(path.startsWith("http") ? path : stage.service.url + path);
  await view.act?.(page, stage);
  await expect(page.getByText(view.shows).filter({ visible: true }).first()).toBeVisible();
  await expect(page.locator('[role=status][aria-label^="Loading"]')).toHaveCount(0);
  await page.evaluate(() => document.fonts.ready);
}

/** What a page did that no page may do; it grows while the page is open. */
export type Complaints = readonly string[];

/** complaintsOf listens for errors, for violations of the content security policy, and for requests elsewhere. */
export async function complaintsOf(page: Page, origin: string): Promise<Complaints> {
  const told: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") told.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => told.push(`page error: ${error.stack}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) told.push(`request elsewhere: ${request.url()}`);
  });
  await page.exposeFunction("tellViolation", (what: string) => told.push(`content security policy: ${what}`));
  await page.addInitScript(() =>
    document.addEventListener("securitypolicyviolation", (event) =>
      (window as unknown as { tellViolation(what: string): void }).tellViolation(`${event.violatedDirective} ${event.blockedURI}`),
    ),
  );
  return told;
}

export { expect };
