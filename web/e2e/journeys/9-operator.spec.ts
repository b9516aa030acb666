// An operator of the service: named on the host, held to a second factor, and seen by the
// tenant whose override they set.
import { totp } from "../rig/totp.ts";
import { demoOwner, expect, test } from "./fixtures.ts";

test("an operator is named on the host, shows a second factor and overrides a tenant", async ({ owner: page, service }) => {
  // An owner is no operator, and isn't told that there is such a page.
  await page.goto(`${service.url}/operator`);
  await expect(page.getByRole("heading", { name: "Page not found" })).toBeVisible();
  const refused = await page.request.post(`${service.url}/corvo.cloud.v1.OperatorService/ListTenants`, { headers: { Origin: service.url }, data: {} });
  expect(refused.status()).toBe(403);

  service.nameOperator(demoOwner, "admin");
  await page.goto(service.url);
  await page.getByRole("button", { name: `Account ${demoOwner}` }).click();
  await page.getByRole("menuitem", { name: "Operator pages" }).click();
  await expect(page.getByRole("heading", { name: "Set up a second factor" })).toBeVisible();
  await page.getByRole("button", { name: "Add app" }).click();
  const dialog = page.getByRole("dialog");
  const secret = (await dialog.locator("code").textContent()) ?? "";
  await dialog.getByLabel("Code", { exact: true }).fill(totp(secret));
  await dialog.getByRole("button", { name: "Add authenticator app" }).click();
  await page.getByRole("button", { name: "I saved these codes" }).click();
  await page.getByRole("button", { name: "Continue" }).click();

  const demo = page.getByRole("row").filter({ hasText: "demo" });
  await expect(demo).toContainText("unlimited");
  await page.getByLabel("Sort by").selectOption("name");
  await page.getByLabel("Name or id").fill("no such");
  await expect(page.getByText("No matching tenants")).toBeVisible();
  await expect(page).toHaveURL(/search=no/);
  await page.getByLabel("Name or id").fill("dem");
  await demo.getByRole("link", { name: "demo" }).click();

  await page.getByRole("button", { name: "Set override" }).click();
  await dialog.getByLabel("Entitlement").selectOption("members_max");
  await dialog.getByLabel("Value").fill("25");
  await dialog.getByRole("button", { name: "Set override" }).click();
  await expect(dialog.getByText("Say why")).toBeVisible();
  await dialog.getByLabel("Reason").fill("Pilot until spring");
  await expect(dialog.getByText(/override set demo members_max 25/)).toBeVisible();
  await dialog.getByRole("button", { name: "Set override" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("table", { name: "Overrides" }).getByRole("row").filter({ hasText: "members_max" })).toContainText("Pilot until spring");

  // The tenant sees who did it, and why.
  await page.goto(`${service.url}/demo/settings/audit?action=override.`);
  const entry = page.getByText("Entitlement override set").first();
  await expect(entry).toBeVisible();
  await expect(page.getByText("operator", { exact: true }).first()).toBeVisible();
});

test("a plan's next version is shown before it is applied", async ({ owner: page, service }) => {
  await page.goto(`${service.url}/operator/plans/team`);
  await page.getByRole("button", { name: "Make new version" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("A month", { exact: true }).fill("5900");
  await dialog.getByRole("button", { name: "Preview changes" }).click();
  await expect(dialog.getByRole("list", { name: "Differences" })).toContainText("base_amount");
  await dialog.getByLabel("Reason").fill("Prices of 2027");
  await dialog.getByRole("button", { name: "Apply version 2" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("columnheader", { name: /^2/ })).toBeVisible();
  await page.getByRole("link", { name: "Reconciliation" }).click();
  await expect(page.getByText("Everything agrees", { exact: true })).toBeVisible();
});
