// Owner and viewer differ in the console and in the API.
import { expect, MailServer, otherPerson, test } from "./fixtures.ts";

test("an invited viewer sees jobs and changes nothing; the audit log knows it all", async ({ owner: page, service, mail, demo }) => {
  await demo.enqueue("team", {});
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("E-mail address").fill("vera@example.com");
  await page.getByLabel("Role", { exact: true }).selectOption({ label: "Viewer" });
  await page.getByRole("button", { name: "Send the invitation" }).click();
  await expect(page.getByRole("row").filter({ hasText: "vera@example.com" })).toBeVisible();

  const vera = await otherPerson(page);
  await vera.page.goto(MailServer.link(await mail.next("vera@example.com", /join/i)));
  await vera.page.getByRole("button", { name: /join|accept/i }).click();
  await expect(vera.page.getByRole("navigation").first()).toBeVisible();

  await vera.page.goto(`${service.url}/demo/default/queues`);
  const pause = vera.page.getByRole("button", { name: "Pause team" });
  await expect(pause).toHaveAttribute("aria-disabled", "true");
  await vera.page.goto(`${service.url}/demo/default/keys`);
  await expect(vera.page.getByText(/may not see API keys/i)).toBeVisible();

  // What the page does not offer, the API refuses.
  const refused = await vera.page.request.post(`${service.url}/corvo.cloud.v1.NamespaceService/CreateNamespace`, {
    headers: { "Content-Type": "application/json", Origin: service.url },
    data: { tenant: "demo", name: "sneaky" },
  });
  expect(refused.status()).toBe(403);
  expect(await refused.text()).toContain("namespace.write");

  await page.goto(`${service.url}/demo/settings/audit`);
  await expect(page.getByRole("row").filter({ hasText: "invitation.create" }).first()).toContainText("vera@example.com");

  // Removed, she is out in every window at once.
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Remove vera@example.com" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await expect(page.getByRole("button", { name: "Remove vera@example.com" })).toHaveCount(0);
  const after = await vera.page.request.post(`${service.url}/corvo.cloud.v1.NamespaceService/ListNamespaces`, {
    headers: { "Content-Type": "application/json", Origin: service.url },
    data: { tenant: "demo" },
  });
  expect([401, 404]).toContain(after.status());
  await vera.context.close();
});

test("the session cookie is out of reach of scripts, and other origins cannot use it", async ({ owner: page, service }) => {
  const session = (await page.context().cookies()).find((cookie) => cookie.name.endsWith("corvo_session"));
  expect(session?.httpOnly).toBe(true);
  expect(session?.sameSite).toBe("Lax");
  expect(await page.evaluate(() => document.cookie)).toBe("");
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  expect(stored).not.toMatch(/corvo_(dp|mg|login|session)_|eyJ/);

  const foreign = await page.request.post(`${service.url}/corvo.cloud.v1.AuthService/GetCurrentIdentity`, {
    headers: { "Content-Type": "application/json", Origin: "https://evil.example", "Sec-Fetch-Site": "cross-site" },
    data: {},
  });
  expect(foreign.status()).toBeGreaterThanOrEqual(400);
});

test("a sign-in link that was asked for elsewhere signs nobody in without a click", async ({ page, service }) => {
  // The link that the service printed when it started: no browser asked for it.
  await page.goto(service.variable("CORVO_CONSOLE_URL"));
  await expect(page.getByRole("heading", { name: "Sign in with this link?" })).toBeVisible();
  expect(await page.context().cookies()).toHaveLength(0);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("navigation").first()).toBeVisible();
});
