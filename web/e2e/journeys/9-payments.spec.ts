// A customer passes a limit, pays for a plan, and pays an invoice whose card was declined. The
// provider's pages are those of the service's test payments: no money moves.
import type { Page } from "@playwright/test";
import { Control, signUp } from "../rig/seed.ts";
import { expect, signIn, Tenant, test } from "./fixtures.ts";

const tenant = "umbra";
const owner = "ada@umbra.example";
/** How many the free plan gives. */
const namespacesMax = 60;

test.beforeEach(({ page: _ }, info) => info.setTimeout(120_000));

test("a plan is paid for when a limit is reached, and an unpaid invoice is paid", async ({ page, service, mail }) => {
  const token = await signUp(service, mail, owner, tenant);
  const control = new Control(service.url, token);
  const settings = `${service.url}/${tenant}/settings`;
  service.operate("override", "set", tenant, "jobs_per_month_max", "2", "--reason", "to reach it in a test");
  await enqueueThree(service.url, control);
  const others = Array.from({ length: namespacesMax - 1 }, (_, n) => `team-${n + 1}`);
  await Promise.all(others.map((name) => control.call("NamespaceService/CreateNamespace", { tenant, name })));
  await signIn(page, service, mail, owner);

  await page.goto(`${settings}/namespaces`);
  await createNamespace(page);
  await expect(page.getByRole("dialog").getByText(`allows ${namespacesMax} namespaces (namespaces_max)`)).toBeVisible();

  // Three jobs are one more than the tenant may have.
  await seenAt(page, `${settings}/plan`, "No job starts because all 2 jobs of this month are used");
  service.operate("override", "remove", tenant, "jobs_per_month_max");
  await expect(page.getByText(`${namespacesMax} of ${namespacesMax}`)).toBeVisible();
  await page.getByRole("button", { name: "Change plan" }).click();
  await page.getByRole("dialog").getByLabel("New plan").selectOption("team");
  await page.getByRole("dialog").getByRole("button", { name: "Go to checkout" }).click();
  await expect(page.getByRole("heading", { name: "Subscribe to Corvo Team" })).toBeVisible();
  await expect(page.getByText("No money moves.")).toBeVisible();
  await page.getByRole("button", { name: "Pay with a card that is declined" }).click();
  await expect(page.getByRole("alert")).toContainText("The card was declined");
  await page.getByRole("button", { name: "Pay", exact: true }).click();
  await expect(page.getByText("You have the Team plan.")).toBeVisible();

  // The rest of the month, paid ahead: how much depends on the day.
  const paid = page.getByRole("row").filter({ has: page.getByText("paid", { exact: true }) });
  await expect(paid).toHaveCount(1);
  const amount = /\$\d+\.\d\d/.exec((await paid.textContent()) ?? "")?.[0] ?? "no amount";
  const opened = page.waitForEvent("popup");
  await paid.getByRole("link", { name: /^Open/ }).click();
  await expect((await opened).getByRole("row", { name: `Total ${amount}` })).toBeVisible();
  await (await opened).close();

  await page.goto(`${settings}/namespaces`);
  await createNamespace(page);
  await expect(page.getByText("Created namespace one-more")).toBeVisible();

  await page.goto(`${settings}/billing`);
  await openPortal(page);
  await page.getByRole("button", { name: "Use a card that is declined" }).click();
  await expect(page.getByText("Payments are declined.")).toBeVisible();
  await page.getByRole("button", { name: "Create the next invoice now" }).click();
  await expect(page.getByText("an invoice isn't paid")).toBeVisible();
  await page.getByRole("link", { name: "Back to Corvo" }).click();
  await expect(page.getByText("An invoice isn't paid").first()).toBeVisible();
  await mail.next(owner, /A payment for umbra failed/);
  await openPortal(page);
  await page.getByRole("button", { name: "Use a card that pays" }).click();
  await expect(page.getByText("Corvo Team, active.")).toBeVisible();
  await page.getByRole("link", { name: "Back to Corvo" }).click();
  await expect(paid).toHaveCount(2);
  await expect(page.getByText("An invoice isn't paid")).toHaveCount(0);
});

async function enqueueThree(url: string, control: Control): Promise<void> {
  const { secret } = await control.call<{ secret: string }>("ApiKeyService/CreateApiKey", {
    tenant,
    name: "shop",
    kind: "KEY_KIND_JOBS",
    namespaces: ["default"],
    roles: ["producer"],
  });
  const jobs = new Tenant(`${url}/t/${tenant}`, secret);
  for (let n = 0; n < 3; n++) await jobs.enqueue("orders", { n });
}

/** seenAt loads a page until it shows a text: what it says follows from what loops of the service do. */
async function seenAt(page: Page, address: string, text: string): Promise<void> {
  await expect(async () => {
    await page.goto(address);
    await expect(page.getByText(text).first()).toBeVisible({ timeout: 5_000 });
  }).toPass();
}

async function createNamespace(page: Page): Promise<void> {
  await page.getByRole("button", { name: "New namespace" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("one-more");
  await dialog.getByRole("button", { name: "Create" }).click();
}

async function openPortal(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Open payment portal" }).click();
  await expect(page.getByRole("heading", { name: "Billing portal" })).toBeVisible();
}
