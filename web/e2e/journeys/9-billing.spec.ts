// What a tenant has, what another plan would do, and a limit of what is spent.
import { expect, test } from "./fixtures.ts";

test("an owner sees the plan, checks a smaller one, and nothing changes", async ({ owner, service }) => {
  await owner.goto(`${service.url}/demo/settings/plan`);
  await expect(owner.getByRole("heading", { name: "Plan and usage" })).toBeVisible();
  await expect(owner.getByText("1 of 2,000")).toBeVisible(); // Namespaces.

  await owner.getByRole("button", { name: "Change plan" }).click();
  const dialog = owner.getByRole("dialog");
  await dialog.getByLabel("New plan").selectOption("free");
  await expect(dialog.getByText("The plan changes on")).toBeVisible();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await owner.reload();
  await expect(owner.getByRole("heading", { name: "Unlimited plan", exact: true })).toBeVisible();
  await expect(owner.getByText("The plan changes to")).toHaveCount(0);
});

test("a change to a smaller plan waits for the end of the month, and can be taken back", async ({ owner, service }) => {
  await owner.goto(`${service.url}/demo/settings/plan`);
  await owner.getByRole("button", { name: "Change plan" }).click();
  const dialog = owner.getByRole("dialog");
  await dialog.getByLabel("New plan").selectOption("free");
  await dialog.getByRole("button", { name: "Change plan" }).click();
  await expect(owner.getByText("The plan changes to Free on")).toBeVisible();
  await owner.getByRole("button", { name: "Keep Unlimited" }).click();
  await expect(owner.getByText("The plan changes to Free on")).toHaveCount(0);
  await expect(owner.getByRole("heading", { name: "Unlimited plan", exact: true })).toBeVisible();
});

test("an owner limits what is spent, to the cent, and removes the limit", async ({ owner, service }) => {
  await owner.goto(`${service.url}/demo/settings/billing`);
  await owner.getByRole("button", { name: "Set spend limit" }).click();
  const dialog = owner.getByRole("dialog");
  await dialog.getByLabel("Amount per month").fill("0");
  await dialog.getByRole("button", { name: "Set spend limit" }).click();
  await expect(dialog.getByText("Enter an amount above zero")).toBeVisible();
  await dialog.getByLabel("Amount per month").fill("1,200.05");
  await dialog.getByLabel("When the limit is reached").selectOption("hold");
  await dialog.getByRole("button", { name: "Set spend limit" }).click();
  await expect(owner.getByText("$0.00 of $1,200.05 spent this month")).toBeVisible();
  await expect(owner.getByText("Emails are sent at 80% and 100%.")).toBeVisible();

  await owner.getByRole("button", { name: "Remove", exact: true }).click();
  await owner.getByRole("dialog").getByRole("button", { name: "Remove spend limit" }).click();
  await expect(owner.getByText("No limit. $0.00 spent this month.")).toBeVisible();
  await owner.goto(`${service.url}/demo/settings/audit?action=spend_limit.`);
  await expect(owner.getByText("Spend limit changed").first()).toBeVisible();
});
