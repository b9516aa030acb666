// A company's identity provider: set up, tried, switched on; groups become roles.
import { expect, otherPerson, signInAtProvider, test } from "./fixtures.ts";

test("single sign-on from set-up to a role by groups", async ({ owner: page, service, provider }) => {
  await page.goto(`${service.url}/demo/settings/sso`);
  await expect(page.getByText(/\/auth\/oidc\/tn_\w+\/callback$/).first()).toBeVisible();
  await page.getByLabel("Issuer").fill(provider.issuer);
  await page.getByLabel("Client ID").fill(provider.clientId);
  await page.getByLabel("Client secret").fill(provider.clientSecret);
  await page.getByLabel("Role for everyone else").selectOption({ label: "No entry" });
  await page.getByRole("button", { name: "Add group" }).click();
  await page.getByLabel("Group", { exact: true }).fill("engineering");
  await page.getByLabel("Role", { exact: true }).selectOption({ label: "Developer" });
  await page.getByRole("button", { name: "Add group" }).click();
  await page.getByLabel("Group", { exact: true }).nth(1).fill("everybody");
  await page.getByLabel("Role", { exact: true }).nth(1).selectOption({ label: "Viewer" });
  await page.getByRole("button", { name: /save/i }).click();

  const switchOn = page.getByRole("button", { name: "Turn on" });
  await expect(switchOn).toHaveAttribute("aria-disabled", "true");
  const popup = page.waitForEvent("popup");
  await page.getByRole("button", { name: "Test sign-in" }).click();
  const trial = await popup;
  await signInAtProvider(trial, "ada");
  await expect(trial.getByText(/works|close this/i).first()).toBeVisible();
  await trial.close();
  await expect(page.getByText("It works")).toBeVisible();
  await expect(page.getByText("ada@corp.example")).toBeVisible();
  await switchOn.click();
  await expect(page.getByRole("button", { name: "Turn off" })).toBeVisible();

  const ada = await otherPerson(page);
  await ada.page.goto(`${service.url}/signin`);
  await ada.page.getByRole("button", { name: "Continue with SSO" }).click();
  await ada.page.getByRole("textbox").fill("demo");
  await ada.page.getByRole("button", { name: /continue/i }).click();
  await signInAtProvider(ada.page, "ada");
  await expect(ada.page.getByRole("navigation").first()).toBeVisible();
  await ada.page.goto(`${service.url}/demo/settings/namespaces`);
  await expect(ada.page.getByRole("button", { name: "New namespace" }).first()).not.toHaveAttribute("aria-disabled", "true");

  // Moved to another group at the provider, the next sign-in has the other role.
  await provider.setGroups("ada", ["everybody"]);
  await ada.context.clearCookies();
  await ada.page.goto(`${service.url}/auth/oidc/start?tenant=demo`);
  await signInAtProvider(ada.page, "ada");
  await expect(ada.page.getByRole("navigation").first()).toBeVisible();
  await ada.page.goto(`${service.url}/demo/settings/namespaces`);
  await expect(ada.page.getByRole("button", { name: "New namespace" }).first()).toHaveAttribute("aria-disabled", "true");
  await ada.context.close();

  // In none of the mapped groups: no entry, and a page that says so.
  const eve = await otherPerson(page);
  await eve.page.goto(`${service.url}/auth/oidc/start?tenant=demo`);
  await signInAtProvider(eve.page, "eve");
  await expect(eve.page.getByText(/group|admin/i).first()).toBeVisible();
  await expect(eve.page.getByRole("navigation", { name: /main|primary/i })).toHaveCount(0);
  await eve.context.close();

  // Another one beside it, for whom the first one isn't: chosen by its address, and deleted alone.
  await page.goto(`${service.url}/demo/settings/sso`);
  await page.getByRole("button", { name: "Add connection" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Contractors");
  await page.getByLabel("Issuer").fill(provider.issuer);
  await page.getByLabel("Client ID").fill(provider.clientId);
  await page.getByLabel("Client secret").fill(provider.clientSecret);
  await page.getByRole("button", { name: /save/i }).click();
  const list = page.getByRole("table", { name: "Connections" });
  await expect(list.getByRole("row").filter({ hasText: "Contractors" })).toContainText("not tested");
  await expect(page).toHaveURL(/connection=sso_/);
  await expect(page.getByRole("button", { name: "Turn on" })).toBeVisible();
  await list.getByRole("link", { name: "Company sign-in" }).click();
  await expect(page.getByRole("button", { name: "Turn off" })).toBeVisible();
  await page.goBack();
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Contractors");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete connection" }).click();
  await expect(list).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Turn off" })).toBeVisible();

  await page.goto(`${service.url}/demo/settings/members`);
  await expect(page.getByRole("row").filter({ hasText: "ada@corp.example" })).toContainText("SSO");
});
