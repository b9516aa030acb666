// Machines and directories that come by themselves: a trust, and directory sync.
import { Directory } from "../rig/directory.ts";
import { TokenIssuer } from "../rig/issuer.ts";
import { Control } from "../rig/seed.ts";
import { demoOwner, expect, test } from "./fixtures.ts";

test("a job of a CI gets a key for its token, until its account is disabled or the trust deleted", async ({ owner: page, service, demo }) => {
  const issuer = await TokenIssuer.start();
  await page.goto(`${service.url}/demo/settings/service-accounts`);
  await page.getByRole("button", { name: "New service account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("deployer");
  await dialog.getByRole("checkbox", { name: "Producer" }).check();
  await dialog.getByRole("button", { name: "Create service account" }).click();
  await page.getByRole("button", { name: "Trusts of deployer" }).click();
  await expect(dialog.getByText("corvo trusts create web --service-account deployer")).toBeVisible();
  await dialog.getByRole("button", { name: "New trust" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("web");
  await dialog.getByLabel("Repository").fill("acme/web");
  await dialog.getByLabel("More conditions").fill("ref=refs/heads/main");
  await dialog.getByLabel("Issuer").fill(issuer.issuer);
  await dialog.getByText("Limits of its keys").click();
  await dialog.getByLabel("Queues", { exact: true }).fill("deploys.*");
  await dialog.getByRole("button", { name: "Create trust" }).click();

  // What the job does, with no secret in it.
  await expect(dialog.getByRole("heading", { name: "How to use web" })).toBeVisible();
  const lines = await dialog.getByRole("region", { name: "Configuration" }).innerText();
  expect(lines).toContain("key=$(corvo token exchange)");
  expect(lines).toContain(`CORVO_ENDPOINT: ${service.url}`);
  expect(lines).not.toMatch(/corvo_(dp|mg|tmp)_/);
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(dialog.getByRole("list", { name: "Trusts" })).toContainText("Gives keys for 15 min, with limits");
  await dialog.getByRole("button", { name: "Close" }).last().click();

  const control = new Control(service.url);
  const exchange = async (ref: string) => {
    const token = issuer.token(`${service.url}/demo`, { repository: "acme/web", ref });
    return (await control.call<{ key: string }>("TrustService/ExchangeToken", { tenant: "demo", token })).key;
  };
  const enqueue = async (key: string, queue: string) =>
    (await fetch(`${demo.url}/api/v1/enqueue`, { method: "POST", headers: { "X-API-Key": key, "X-Corvo-Namespace": "default" }, body: JSON.stringify({ queue, payload: {} }) })).status;
  await expect(exchange("refs/heads/mine")).rejects.toThrow("TOKEN_NOT_ACCEPTED");
  const key = await exchange("refs/heads/main");
  expect(await enqueue(key, "deploys.web")).toBeLessThan(300);
  expect(await enqueue(key, "bills")).toBe(403);

  await page.getByRole("button", { name: "Disable deployer" }).click();
  await expect.poll(() => enqueue(key, "deploys.web")).toBeGreaterThanOrEqual(401);
  await expect(exchange("refs/heads/main")).rejects.toThrow("TOKEN_NOT_ACCEPTED");
  await page.getByRole("button", { name: "Enable deployer" }).click();
  await expect(page.getByRole("button", { name: "Disable deployer" })).toBeVisible();
  const another = await exchange("refs/heads/main");

  // Changed, it accepts what it says now, and the keys that it gave end.
  await page.getByRole("button", { name: "Trusts of deployer" }).click();
  await dialog.getByRole("button", { name: "Edit web" }).click();
  await dialog.getByLabel("More conditions").fill("ref=refs/heads/next");
  await dialog.getByRole("button", { name: "Save trust" }).click();
  await expect(dialog.getByRole("list", { name: "Trusts" })).toContainText("ref = refs/heads/next");
  await expect.poll(() => enqueue(another, "deploys.web")).toBeGreaterThanOrEqual(401);
  await expect(exchange("refs/heads/main")).rejects.toThrow("TOKEN_NOT_ACCEPTED");
  const next = await exchange("refs/heads/next");
  expect(await enqueue(next, "deploys.web")).toBeLessThan(300);
  await dialog.getByRole("button", { name: "Delete web" }).click();
  await dialog.getByRole("button", { name: "Delete trust" }).click();
  await expect(dialog.getByText("It has no trusts")).toBeVisible();
  await expect.poll(() => enqueue(next, "deploys.web")).toBeGreaterThanOrEqual(401);
  await issuer.end();
});

test("directory sync is turned on, brings people and groups, says what was refused, and is turned off", async ({ owner: page, service, provider }) => {
  const control = new Control(service.url, service.variable("CORVO_TOKEN"));
  const { connection } = await control.call<{ connection: { id: string } }>("SsoService/CreateSsoConnection", {
    tenant: "demo",
    name: "Company directory",
    issuer: provider.issuer,
    clientId: provider.clientId,
    clientSecret: provider.clientSecret,
    defaultRole: "viewer",
  });
  await page.goto(`${service.url}/demo/settings/directory?connection=${connection.id}`);
  await expect(page.getByRole("heading", { name: /Company directory off/ })).toBeVisible();
  await page.getByRole("button", { name: "Turn on" }).click();
  await page.getByRole("button", { name: "Create token" }).click();
  const token = (await page.getByRole("region", { name: "Token" }).innerText()).trim();
  const endpoint = (await page.getByRole("region", { name: "Base URL" }).innerText()).trim();
  expect(token).toMatch(/^corvo_scim_/);
  await page.getByRole("button", { name: "I saved this token" }).click();
  await expect(page.getByText("waiting for its first call")).toBeVisible();

  // The page follows what the directory does.
  const directory = new Directory(endpoint, token);
  const dora = await directory.user("dora@corp.example");
  await directory.group("Company data", [dora]);
  await expect(page.getByText("1 user, 1 active")).toBeVisible();
  await page.reload();
  await page.getByRole("button", { name: "Access of Company data" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Role", { exact: true }).selectOption({ label: "Developer" });
  await dialog.getByRole("button", { name: "Give role" }).click();
  await expect(dialog.getByRole("list", { name: "Roles" })).toContainText("Developer in the whole tenant");
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await page.goto(`${service.url}/demo/settings/members`);
  await expect(page.getByRole("row").filter({ hasText: "dora@corp.example" })).toBeVisible();
  await directory.setActive(dora, false);
  await page.reload();
  await expect(page.getByRole("row").filter({ hasText: demoOwner }).first()).toBeVisible();
  await expect(page.getByRole("row").filter({ hasText: "dora@corp.example" })).toHaveCount(0);

  const { status } = await directory.call("POST", "/Groups", { schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"], displayName: "Company data" });
  expect(status).toBe(409);
  await page.goto(`${service.url}/demo/settings/directory?connection=${connection.id}`);
  await expect(page.getByText("1 user, 0 active")).toBeVisible();
  await expect(page.getByText(/409 there is a group called Company data/)).toBeVisible();

  await page.getByRole("button", { name: /^Revoke corvo_scim_/ }).click();
  await expect(dialog.getByText("This is the last token that works")).toBeVisible();
  await dialog.getByRole("button", { name: "Revoke token" }).click();
  await expect(page.getByRole("heading", { name: /Company directory stopped/ })).toBeVisible();
  expect((await directory.call("GET", "/Users")).status).toBe(401);
  await control.call("SsoService/DeleteSsoConnection", { tenant: "demo", connectionId: connection.id });
});
