// Who may do what: roles, service accounts, groups, and the questions about them.
import { readFileSync } from "node:fs";
import { demoOwner, expect, test } from "./fixtures.ts";

test("a role of one's own is given to a service account in one queue, and its key can do that alone", async ({ owner: page, service, demo }) => {
  await demo.enqueue("bills", {});
  await page.goto(`${service.url}/demo/settings/roles`);
  await page.getByRole("button", { name: "New role" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("pauser");
  await dialog.getByLabel("Find a permission").fill("queue.");
  await dialog.getByRole("checkbox", { name: "queue.read" }).check();
  await dialog.getByRole("checkbox", { name: "queue.pause" }).check();
  await dialog.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("row").filter({ hasText: "pauser" })).toBeVisible();

  await page.goto(`${service.url}/demo/settings/service-accounts`);
  await page.getByRole("button", { name: "New service account" }).first().click();
  await dialog.getByLabel("Name", { exact: true }).fill("night watch");
  await dialog.getByRole("button", { name: "Create service account" }).click();
  await page.getByRole("button", { name: "Access of night watch" }).click();
  await dialog.getByLabel("Role", { exact: true }).selectOption({ label: "pauser" });
  await dialog.getByLabel("Namespace", { exact: true }).selectOption({ label: "default" });
  await dialog.getByLabel("Queues", { exact: true }).fill("bills");
  await dialog.getByRole("button", { name: "Give role" }).click();
  await expect(dialog.getByRole("list", { name: "Roles" })).toContainText("pauser in queues bills of default");
  await dialog.getByRole("button", { name: "Close" }).last().click();

  await page.getByRole("button", { name: "Keys of night watch" }).click();
  await dialog.getByRole("button", { name: "New key" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("watch 1");
  await dialog.getByRole("button", { name: "Create key" }).click();
  const key = (await page.getByRole("region", { name: "API key" }).innerText()).trim();
  await page.getByRole("button", { name: "I saved this key" }).click();
  const pause = async (queue: string) =>
    (await fetch(`${demo.url}/api/v1/queues/${queue}/pause`, { method: "POST", headers: { "X-API-Key": key, "X-Corvo-Namespace": "default" } })).status;
  expect(await pause("bills")).toBe(200);
  expect(await pause("team")).toBeGreaterThanOrEqual(403);

  // What it may do can be seen without its key.
  await page.goto(`${service.url}/demo/settings/access?tab=test`);
  await page.getByRole("combobox", { name: "Who" }).fill("night watch");
  await page.getByRole("option", { name: /night watch/ }).first().click();
  await page.getByLabel("Namespace", { exact: true }).selectOption({ label: "default" });
  await page.getByLabel("Queue", { exact: true }).fill("bills");
  const pausing = page.getByRole("listitem").filter({ hasText: "queue.pause" });
  await expect(pausing.getByLabel("allowed:", { exact: true })).toBeVisible();
  await page.getByLabel("Queue", { exact: true }).fill("team");
  await expect(pausing.getByLabel("not allowed:")).toBeVisible();

  // A key's own limits narrow it, and can be changed while it works.
  await page.goto(`${service.url}/demo/default/keys`);
  await page.getByRole("button", { name: "Edit watch 1" }).click();
  await dialog.getByLabel("Can do").selectOption({ label: "Only chosen permissions" });
  await expect(dialog.getByRole("button", { name: "Save key" })).toHaveAttribute("aria-disabled", "true");
  await dialog.getByLabel("Find a permission").fill("queue.read");
  await dialog.getByRole("checkbox", { name: "queue.read" }).check();
  await dialog.getByRole("button", { name: "Save key" }).click();
  await expect(page.getByRole("row").filter({ hasText: "watch 1" })).toContainText("queue.read in all namespaces");
  await expect.poll(() => pause("bills")).toBe(403);
  await page.getByRole("button", { name: "Edit watch 1" }).click();
  await dialog.getByLabel("Can do").selectOption({ label: "Everything that its owner can do" });
  await dialog.getByLabel("Queues", { exact: true }).fill("bills");
  await dialog.getByRole("button", { name: "Save key" }).click();
  await expect.poll(() => pause("bills")).toBe(200);
  await page.goto(`${service.url}/demo/settings/service-accounts`);

  // Disabled, its keys end; enabled, they work again.
  await page.getByRole("button", { name: "Disable night watch" }).click();
  await expect(page.getByRole("row").filter({ hasText: "night watch" })).toContainText("disabled");
  await expect.poll(() => pause("bills")).toBeGreaterThanOrEqual(401);
  await page.getByRole("button", { name: "Enable night watch" }).click();
  await expect.poll(() => pause("bills")).toBe(200);

  // Before it is saved, a change of the role says whom it concerns.
  await page.goto(`${service.url}/demo/settings/roles`);
  await page.getByRole("button", { name: "Edit pauser" }).click();
  await dialog.getByRole("checkbox", { name: "queue.pause" }).uncheck();
  await expect(dialog.getByText("Lost:")).toContainText("queue.pause");
  await expect(dialog.getByText("night watch")).toBeVisible();
  await dialog.getByRole("button", { name: "Save role" }).click();
  await expect.poll(() => pause("bills")).toBeGreaterThanOrEqual(403);

  await page.goto(`${service.url}/demo/settings/service-accounts`);
  await page.getByRole("button", { name: "Delete night watch" }).click();
  await dialog.getByRole("textbox").fill("night watch");
  await dialog.getByRole("button", { name: "Delete and revoke keys" }).click();
  // Behind a dialog there are no rows: not until it closes is it done.
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("row").filter({ hasText: "night watch" })).toHaveCount(0);
  await page.goto(`${service.url}/demo/settings/roles`);
  await page.getByRole("button", { name: "Delete pauser" }).click();
  await dialog.getByRole("button", { name: "Delete role" }).click();
  await expect(page.getByRole("row").filter({ hasText: "pauser" })).toHaveCount(0);
});

test("a key's page says what it can do, what happened to it and what it did", async ({ owner: page, service, demo }) => {
  await demo.enqueue("bills", {});
  await page.goto(`${service.url}/demo/default/keys`);
  await page.getByRole("button", { name: "New key" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("pauser of bills");
  await dialog.getByRole("checkbox", { name: "Operator" }).check();
  await dialog.getByText("More limits").click();
  await dialog.getByLabel("Queues", { exact: true }).fill("bills");
  await dialog.getByRole("button", { name: "Create key" }).click();
  const key = (await page.getByRole("region", { name: "API key" }).innerText()).trim();
  await page.getByRole("button", { name: "I saved this key" }).click();
  const paused = await fetch(`${demo.url}/api/v1/queues/bills/pause`, { method: "POST", headers: { "X-API-Key": key, "X-Corvo-Namespace": "default" } });
  expect(paused.status).toBe(200);

  await page.getByRole("link", { name: "pauser of bills" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText("pauser of bills");
  await expect(page.getByRole("heading", { name: "in default, queues bills" })).toBeVisible();
  const entries = page.getByRole("table", { name: "audit events" });
  await expect(entries.getByRole("row").filter({ hasText: "API key created" })).toContainText(demoOwner);
  await page.getByRole("button", { name: "Rotate" }).click();
  await dialog.getByRole("button", { name: "Rotate secret" }).click();
  await page.getByRole("button", { name: "I saved this key" }).click();
  await expect(page.getByText("2 active secrets")).toBeVisible();
  await expect(page.getByRole("table", { name: "Secrets" }).getByRole("row")).toHaveCount(3);
  await expect(entries.getByRole("row").filter({ hasText: "API key secret rotated" })).toBeVisible();
  await page.getByRole("tab", { name: "What it did" }).click();
  await expect(entries.getByRole("row").filter({ hasText: "Queue paused" }).first()).toContainText("bills");
  await page.reload();
  await expect(page.getByRole("tab", { name: "What it did" })).toHaveAttribute("aria-selected", "true");
  await page.getByRole("link", { name: "Explain" }).click();
  await page.getByLabel("Permission").fill("queue.pause");
  await page.getByRole("option", { name: /queue\.pause/ }).first().click();
  await expect(page.getByRole("status").filter({ hasText: /pauser of bills/ })).toBeVisible();
});

test("a group gives its roles, and the review says who has what and why", async ({ owner: page, service }) => {
  await page.goto(`${service.url}/demo/settings/groups`);
  await page.getByRole("button", { name: "New group" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("pager");
  await dialog.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("button", { name: "Members of pager" }).click();
  await dialog.getByRole("combobox", { name: "Add a member" }).fill(demoOwner);
  await page.getByRole("option", { name: demoOwner }).click();
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await expect(dialog.getByRole("list", { name: "Members" })).toContainText(demoOwner);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await page.getByRole("button", { name: "Access of pager" }).click();
  await dialog.getByLabel("Role", { exact: true }).selectOption({ label: "Operator" });
  await dialog.getByRole("button", { name: "Give role" }).click();
  await expect(dialog.getByRole("list", { name: "Roles" })).toContainText("Operator in the whole tenant");
  await dialog.getByRole("button", { name: "Close" }).last().click();

  await page.goto(`${service.url}/demo/settings/access`);
  const row = page.getByRole("row").filter({ hasText: demoOwner }).first();
  await expect(row).toContainText("Owner");
  await expect(row).toContainText("in pager");
  const file = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download CSV" }).click();
  expect(readFileSync(await (await file).path(), "utf8")).toMatch(new RegExp(`^user,usr_[0-9A-Z]+,${demoOwner},`, "m"));

  await page.getByRole("tab", { name: "Explain" }).click();
  await page.getByRole("combobox", { name: "Permission" }).fill("job.retry");
  await page.getByRole("option", { name: /^job\.retry/ }).click();
  await expect(page.getByRole("row").filter({ hasText: demoOwner })).toContainText("pager");
  await page.getByRole("combobox", { name: "Who" }).fill(demoOwner);
  await page.getByRole("option", { name: new RegExp(demoOwner) }).click();
  await expect(page.getByRole("status").filter({ hasText: "Yes:" })).toContainText("job.retry");
  await expect(page.getByText("through the group pager")).toBeVisible();
  await page.getByRole("tab", { name: "Test as" }).click();
  await expect(page.getByRole("listitem").filter({ hasText: "tenant.delete" }).getByLabel("allowed:", { exact: true })).toBeVisible();

  // Nobody has its roles any more.
  await page.goto(`${service.url}/demo/settings/groups`);
  await page.getByRole("button", { name: "Delete pager" }).click();
  await expect(dialog.getByText("1 member")).toBeVisible();
  await dialog.getByRole("button", { name: "Delete group" }).click();
  await expect(page.getByRole("row").filter({ hasText: "pager" })).toHaveCount(0);
});
