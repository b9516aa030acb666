// A person signs in through a real Keycloak, in a real browser: they type into Keycloak's own
// form, land in the console, and may there what their group gives.
import { expect, test } from "@playwright/test";

/** What services/e2e/keycloak says: the service, the tenant, the person, and the role of their group. */
interface Sent {
  url: string;
  tenant: string;
  user: string;
  password: string;
  role: "Admin" | "Viewer";
}

const sent: Sent = JSON.parse(process.env.CORVO_KEYCLOAK_PERSON ?? "null");

test("a person signs in at Keycloak and has the role of their group", async ({ page }) => {
  if (!sent) throw new Error("started without CORVO_KEYCLOAK_PERSON: run make test-keycloak");
  await page.goto(`${sent.url}/signin`);
  await page.getByRole("button", { name: "Continue with SSO" }).click();
  await page.getByRole("textbox").fill(sent.tenant);
  await page.getByRole("button", { name: /continue/i }).click();

  await expect(page).toHaveURL(/\/realms\//);
  await page.locator("#username").fill(sent.user);
  await page.locator("#password").fill(sent.password);
  await page.locator("#kc-login").click();

  await expect(page.getByRole("navigation").first()).toBeVisible();
  await expect(page).toHaveURL(new RegExp(`^${sent.url}/${sent.tenant}(/|$)`));

  await page.goto(`${sent.url}/${sent.tenant}/settings/members`);
  const own = page.getByRole("row").filter({ hasText: "ada@example.com" });
  await expect(own).toContainText(sent.role);
  await expect(own).toContainText("SSO");
  await page.goto(`${sent.url}/${sent.tenant}/settings/namespaces`);
  const make = page.getByRole("button", { name: "New namespace" }).first();
  if (sent.role === "Viewer") await expect(make).toHaveAttribute("aria-disabled", "true");
  else await expect(make).not.toHaveAttribute("aria-disabled", "true");

  // Another sign-in of the same browser: Keycloak still knows who it is and asks nothing.
  await page.context().clearCookies({ domain: new URL(sent.url).hostname });
  await page.goto(`${sent.url}/auth/oidc/start?tenant=${sent.tenant}`);
  await expect(page.getByRole("navigation").first()).toBeVisible();
});
