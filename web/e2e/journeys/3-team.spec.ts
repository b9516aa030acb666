// Owner and viewer differ in the console and in the API.
import { demoOwner, expect, MailServer, otherPerson, test } from "./fixtures.ts";

test("an invited viewer sees jobs and changes nothing; the audit log knows it all", async ({ owner: page, service, mail, demo }) => {
  await demo.enqueue("team", {});
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email").fill("vera@example.com");
  await expect(page.getByRole("checkbox", { name: "Viewer" })).toBeChecked();
  await page.getByRole("button", { name: "Send invitation" }).click();
  await expect(page.getByRole("row").filter({ hasText: "vera@example.com" })).toBeVisible();

  const vera = await otherPerson(page);
  await vera.page.goto(MailServer.link(await mail.next("vera@example.com", /join/i)));
  await vera.page.getByRole("button", { name: /join|accept/i }).click();
  await expect(vera.page.getByRole("navigation").first()).toBeVisible();

  await vera.page.goto(`${service.url}/demo/default/queues`);
  const pause = vera.page.getByRole("button", { name: "Pause team" });
  await expect(pause).toHaveAttribute("aria-disabled", "true");
  await vera.page.goto(`${service.url}/demo/default/keys`);
  await expect(vera.page.getByText(/can't see API keys/i)).toBeVisible();

  // What the page does not offer, the API refuses.
  const refused = await vera.page.request.post(`${service.url}/corvo.cloud.v1.NamespaceService/CreateNamespace`, {
    headers: { "Content-Type": "application/json", Origin: service.url },
    data: { tenant: "demo", name: "sneaky" },
  });
  expect(refused.status()).toBe(403);
  expect(await refused.text()).toContain("namespace.create");

  await page.goto(`${service.url}/demo/settings/audit`);
  await expect(page.getByRole("row").filter({ hasText: "Invitation sent" }).first()).toContainText("vera@example.com");

  // One more role, and the button that was off works without a new sign-in.
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Change roles of vera@example.com" }).click();
  await page.getByRole("checkbox", { name: "Operator" }).check();
  await page.getByRole("button", { name: "Save roles" }).click();
  await expect(page.getByRole("row").filter({ hasText: "vera@example.com" })).toContainText("Operator");
  await vera.page.goto(`${service.url}/demo/default/queues`);
  await pause.click();
  await expect(vera.page.getByRole("button", { name: "Resume team" })).toBeVisible();

  // Removed, she is out in every window at once.
  await page.getByRole("button", { name: "Remove vera@example.com" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0); // While it is open, the rows behind it have no roles.
  await expect(page.getByRole("button", { name: "Remove vera@example.com" })).toHaveCount(0);
  const after = await vera.page.request.post(`${service.url}/corvo.cloud.v1.NamespaceService/ListNamespaces`, {
    headers: { "Content-Type": "application/json", Origin: service.url },
    data: { tenant: "demo" },
  });
  expect([401, 404]).toContain(after.status());
  await vera.context.close();
});

test("what a person and a key do to queues and jobs is in the audit log, by name", async ({ owner: page, service, demo }) => {
  const jobs = [await demo.enqueue("audited", {}), await demo.enqueue("audited", {})];
  await demo.call("POST", "/api/v1/queues/audited/concurrency", { max: 4 });
  await demo.call("POST", "/api/v1/jobs/bulk", { action: "cancel", job_ids: jobs });
  await page.goto(`${service.url}/demo/default/queues`);
  await page.getByRole("button", { name: "Pause audited" }).click();
  await expect(page.getByRole("button", { name: "Resume audited" })).toBeVisible();

  await page.goto(`${service.url}/demo/settings/audit`);
  const row = (text: string) => page.getByRole("row").filter({ hasText: text });
  const paused = row("Queue paused").filter({ hasText: "audited" });
  await expect(paused).toContainText(demoOwner);
  await expect(paused.getByRole("cell", { name: "default", exact: true })).toBeVisible();
  await expect(row("Queue settings changed").filter({ hasText: "audited" })).toContainText("4");
  const bulk = row("Jobs cancelled in bulk").filter({ hasText: "2 jobs" });
  await expect(bulk).toContainText("development");
  await expect(bulk).toContainText("key");

  // By kind of action, by namespace, and by one action.
  await page.getByLabel("Action").selectOption({ label: "Queues" });
  await expect(bulk).toHaveCount(0);
  await expect(paused).toBeVisible();
  await page.getByLabel("Namespace").selectOption({ label: "default" });
  await expect(page).toHaveURL(/namespace=default/);
  await expect(paused).toBeVisible();
  await paused.getByRole("button", { name: "Queue paused" }).click();
  await expect(row("Queue settings changed")).toHaveCount(0);
  await expect(paused).toBeVisible();
});

test("an invitation does not open an account that is there; a sign-in link to its address does", async ({ owner: page, service, mail }) => {
  const email = "ines@example.com";
  const call = (method: string, data: object) =>
    page.request.post(`${service.url}/corvo.cloud.v1.${method}`, { headers: { "Content-Type": "application/json", Origin: service.url }, data });
  const ines = await otherPerson(page);
  await call("SignupService/Start", { email, tenant: "ines-own" });
  const token = new URL(MailServer.link(await mail.next(email, /confirm/i))).hash.slice("#token=".length);
  expect((await ines.page.request.post(`${service.url}/corvo.cloud.v1.SignupService/Confirm`, { data: { token } })).status()).toBe(200);

  expect((await call("MemberService/CreateInvitation", { tenant: "demo", email, roles: ["viewer"] })).status()).toBe(200);
  const link = MailServer.link(await mail.next(email, /join/i));
  // Whoever else has the link is not let in.
  const finder = await otherPerson(page);
  await finder.page.goto(link);
  await expect(finder.page.getByText("This address already has an account")).toBeVisible();
  await finder.page.getByRole("button", { name: `Send a sign-in link to ${email}` }).click();
  await expect(finder.page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  const me = await finder.page.request.post(`${service.url}/corvo.cloud.v1.AuthService/GetCurrentIdentity`, { headers: { Origin: service.url }, data: {} });
  expect(me.status()).toBe(401);

  // Its owner accepts with the link of that mail, after a click: another browser asked.
  await ines.context.clearCookies();
  await ines.page.goto(MailServer.link(await mail.next(email, /sign in to join/i)));
  await expect(ines.page.getByRole("heading", { name: `Sign in as ${email}?` })).toBeVisible();
  await ines.page.getByRole("button", { name: "Sign in" }).click();
  await expect(ines.page).toHaveURL(new RegExp(`${service.url}/demo/`));
  await finder.context.close();
  await ines.context.close();
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
  await expect(page.getByRole("heading", { name: "Sign in as demo@corvo.localhost?" })).toBeVisible();
  expect(await page.context().cookies()).toHaveLength(0);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("navigation").first()).toBeVisible();
});
