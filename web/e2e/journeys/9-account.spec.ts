// A person's own account: second factors, sessions, programs that sign in by a code.
import type { CDPSession, Page } from "@playwright/test";
import { Service } from "../rig/service.ts";
import { totp } from "../rig/totp.ts";
import { demoOwner, expect, MailServer, otherPerson, signIn, test as base } from "./fixtures.ts";

// Passkeys belong to names, so the console is at one.
const test = base.extend<object, { service: Service }>({
  service: [
    async ({ mail }, use) => {
      const service = await Service.start({ smtpPort: mail.smtpPort, host: "localhost" });
      await use(service);
      await service.end();
    },
    { scope: "worker", timeout: 120_000 },
  ],
});

/** A laptop with a fingerprint sensor that always recognizes its owner. */
async function fingerprint(page: Page): Promise<CDPSession> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return cdp;
}

/** The first step of a sign-in; the second is the caller's. */
async function followLink(page: Page, service: Service, mail: MailServer): Promise<void> {
  const before = await mail.count();
  await page.goto(`${service.url}/signin`);
  await page.getByLabel("Email").fill(demoOwner);
  await page.getByRole("button", { name: "Continue", exact: true }).click();
  await page.goto(MailServer.link(await mail.next(demoOwner, /sign.in/i, before)));
  await expect(page.getByRole("heading", { name: "Confirm it's you" })).toBeVisible();
}

test("a program signs in by a code that a person approves, and is revoked", async ({ page, service, mail }) => {
  const call = async (method: string, data: object, token = "") => {
    const answer = await fetch(`${service.url}/corvo.cloud.v1.${method}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
      body: JSON.stringify(data),
    });
    return { status: answer.status, body: await answer.json() };
  };
  const { body: started } = await call("AuthService/StartDeviceLogin", { clientName: "corvo on ada-laptop" });
  expect(started.verificationUri).toBe(`${service.url}/device`);

  await signIn(page, service, mail, demoOwner);
  await page.goto(started.verificationUri);
  await page.getByLabel("Code").fill("BBBB-BBBB");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByText(/No program is waiting with this code/)).toBeVisible();
  await page.getByLabel("Code").fill(started.userCode.toLowerCase());
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("heading", { name: "Sign in corvo on ada-laptop?" })).toBeVisible();
  await expect(page.getByText("Approve only if you started this yourself")).toBeVisible();
  await expect(page.getByText("127.0.0.1")).toBeVisible();
  await page.getByRole("button", { name: "Approve" }).click();
  await expect(page.getByRole("heading", { name: "Approved" })).toBeVisible();
  const { body: done } = await call("AuthService/PollDeviceLogin", { deviceCode: started.deviceCode });
  expect((await call("AuthService/GetCurrentIdentity", {}, done.token)).body.user.email).toBe(demoOwner);

  await page.goto(`${service.url}/demo/settings/account`);
  const row = page.getByRole("row").filter({ hasText: "corvo on ada-laptop" });
  await row.getByRole("button", { name: /Revoke session/ }).click();
  await expect(row).toHaveCount(0);
  expect((await call("AuthService/GetCurrentIdentity", {}, done.token)).status).toBe(401);
});

test("a passkey and an app are second factors; dangerous actions ask again", async ({ page, service, mail }) => {
  test.setTimeout(120_000);
  await fingerprint(page);
  // Signed in before there was a factor, this browser has shown none.
  const other = await otherPerson(page);
  await signIn(other.page, service, mail, demoOwner);
  await signIn(page, service, mail, demoOwner);
  await page.getByRole("button", { name: `Account ${demoOwner}` }).click();
  await page.getByRole("menuitem", { name: "Your account" }).click();

  await page.getByRole("button", { name: "Add passkey" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Laptop");
  await page.getByRole("dialog").getByRole("button", { name: "Add passkey" }).click();
  const codes = page.getByRole("list", { name: "Recovery codes" }).getByRole("listitem");
  await expect(codes).toHaveCount(10);
  const [recovery = ""] = await codes.allTextContents();
  await page.getByRole("button", { name: "I saved these codes" }).click();
  await expect(page.getByRole("row").filter({ hasText: "Laptop" })).toBeVisible();

  await page.getByRole("button", { name: "Add app" }).click();
  await expect(page.getByRole("img", { name: "QR code for your app" })).toBeVisible();
  const secret = (await page.getByRole("dialog").locator("code").textContent()) ?? "";
  await page.getByRole("dialog").getByLabel("Code", { exact: true }).fill(totp(secret));
  await page.getByRole("dialog").getByRole("button", { name: "Add authenticator app" }).click();
  await expect(page.getByRole("row").filter({ hasText: "Authenticator app" }).first()).toBeVisible();

  // The link alone opens nothing.
  await page.context().clearCookies();
  await followLink(page, service, mail);
  const half = await page.request.post(`${service.url}/corvo.cloud.v1.AuthService/GetCurrentIdentity`, {
    headers: { "Content-Type": "application/json", Origin: service.url },
    data: {},
  });
  expect(half.status()).toBe(401);
  await page.getByRole("button", { name: "Use a passkey" }).click();
  await expect(page.getByRole("navigation").first()).toBeVisible();

  // By the app, with the code of the next half minute: each counts once.
  await page.context().clearCookies();
  await followLink(page, service, mail);
  await page.getByLabel("Code from your authenticator app").fill("000000");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByText(/This code is wrong/)).toBeVisible();
  await page.getByLabel("Code from your authenticator app").fill(totp(secret, 1));
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("navigation").first()).toBeVisible();

  // A dangerous action elsewhere asks first, over the dialog that it began in.
  await other.page.goto(`${service.url}/demo/settings/account`);
  await other.page.getByRole("button", { name: "Remove Authenticator app" }).click();
  await other.page.getByRole("button", { name: "Remove second factor" }).click();
  const proof = other.page.getByRole("dialog", { name: "Confirm it's you" });
  await proof.getByRole("button", { name: "Use a recovery code" }).click();
  await proof.getByLabel("Recovery code").fill(recovery);
  await proof.getByRole("button", { name: "Continue" }).click();
  await expect(proof).toHaveCount(0);
  await expect(other.page.getByRole("button", { name: "Remove Authenticator app" })).toHaveCount(0);
  await expect(other.page.getByText("9 recovery codes left")).toBeVisible();

  // What is left: another name, new codes, and nobody else signed in.
  await other.page.getByRole("button", { name: "Rename Laptop" }).click();
  const dialog = other.page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Work laptop");
  await dialog.getByRole("button", { name: /Rename|Save/ }).click();
  await expect(other.page.getByRole("row").filter({ hasText: "Work laptop" })).toBeVisible();
  await other.page.getByRole("button", { name: "Replace recovery codes" }).click();
  await expect(other.page.getByRole("list", { name: "Recovery codes" }).getByRole("listitem")).toHaveCount(10);
  await other.page.getByRole("button", { name: "I saved these codes" }).click();
  await expect(other.page.getByText("10 recovery codes left")).toBeVisible();
  await other.page.getByRole("button", { name: "Revoke other sessions" }).click();
  await expect(other.page.getByRole("button", { name: "Revoke other sessions" })).toHaveAttribute("aria-disabled", "true");
  await page.goto(`${service.url}/demo/settings/account`);
  await expect(page.getByText("Your session has ended")).toBeVisible();
  await other.context.close();
});
