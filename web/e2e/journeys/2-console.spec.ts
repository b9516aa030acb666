// An operator finds a stuck job, understands it and fixes it.
import { expect, test } from "./fixtures.ts";

test("queues are live and can be paused", async ({ owner: page, service, demo }) => {
  await demo.enqueue("reports", { month: 1 });
  await page.goto(`${service.url}/demo/default/queues`);
  const row = page.getByRole("row").filter({ hasText: "reports" });
  await expect(row).toBeVisible();
  // Without any refresh: the event stream brings the second and third job.
  await demo.enqueue("reports", { month: 2 });
  await demo.enqueue("reports", { month: 3 });
  await expect(row.getByRole("cell").nth(2)).toHaveText(/3/);

  await page.getByRole("button", { name: "Pause reports" }).click();
  await expect(page.getByRole("button", { name: "Resume reports" })).toBeVisible();
  const empty = await demo.call("POST", "/api/v1/fetch", { queues: ["reports"], worker_id: "w", timeout: 1 });
  expect((empty.body as { job_id?: string } | undefined)?.job_id).toBeFalsy();
  await page.getByRole("button", { name: "Resume reports" }).click();
  await expect(page.getByRole("button", { name: "Pause reports" })).toBeVisible();
  await demo.run("reports");
});

test("a dead job is found by filters in the URL, read, and run again", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("mail", { to: "ada@example.com", amount: "9007199254740993" }, { max_retries: 1, tags: { customer: "acme" } });
  await demo.fail(await demo.fetch("mail"), "SMTP 550: mailbox not found");

  await page.goto(`${service.url}/demo/default/jobs?state=dead&queue=mail`);
  await page.getByRole("link", { name: new RegExp(id.slice(-6)) }).first().click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText(id);
  await expect(page.getByText("SMTP 550: mailbox not found").first()).toBeVisible();
  await page.getByRole("tab", { name: "Payload" }).click();
  await expect(page.getByText("9007199254740993")).toBeVisible();

  await page.getByRole("button", { name: "Retry" }).click();
  await demo.run("mail");
  await expect(page.getByText("Completed").first()).toBeVisible();
});

test("a waiting job is cancelled after a question", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("later", {}, { scheduled_at: new Date(Date.now() + 3600_000).toISOString() });
  await page.goto(`${service.url}/demo/default/jobs/${id}`);
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: /cancel/i }).last().click();
  await expect(page.getByText("Cancelled").first()).toBeVisible();
});

test("new jobs wait behind a button, and rows keep their place", async ({ owner: page, service, demo }) => {
  await demo.enqueue("stream", { n: 0 });
  await page.goto(`${service.url}/demo/default/jobs?queue=stream`);
  await expect(page.getByRole("row").filter({ hasText: "stream" })).toHaveCount(1);
  await demo.enqueue("stream", { n: 1 });
  await demo.enqueue("stream", { n: 2 });
  await page.getByRole("button").filter({ hasText: /2 new/ }).click();
  await expect(page.getByRole("row").filter({ hasText: "stream" })).toHaveCount(3);
});

test("a key is made, works, is rotated and revoked", async ({ owner: page, service, demo }) => {
  await page.goto(`${service.url}/demo/default/keys`);
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("journey worker");
  await page.getByRole("button", { name: "Create key" }).click();
  const secret = (await page.getByRole("region", { name: "API key" }).innerText()).trim();
  expect(secret).toMatch(/^corvo_dp_/);
  const call = async (key: string) =>
    (await fetch(`${demo.url}/api/v1/enqueue`, { method: "POST", headers: { "X-API-Key": key }, body: JSON.stringify({ queue: "keys", payload: {} }) })).status;
  expect(await call(secret)).toBe(201);
  await page.getByRole("button", { name: "I saved this key" }).click();
  await expect(page.getByText(secret)).toHaveCount(0);

  await page.getByRole("button", { name: "Rotate journey worker" }).click();
  await page.getByRole("button", { name: "Rotate secret" }).click();
  const second = (await page.getByRole("region", { name: "API key" }).innerText()).trim();
  expect(second).not.toBe(secret);
  expect(await call(second)).toBe(201);
  expect(await call(secret)).toBe(201); // For a day more.
  await page.getByRole("button", { name: "I saved this key" }).click();

  await page.getByRole("button", { name: "Revoke journey worker" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect(page.getByRole("row").filter({ hasText: "journey worker" })).toHaveCount(0);
  await expect.poll(() => call(second)).toBe(401);
  expect(await call(secret)).toBe(401);
});

test("namespaces are made, keep jobs as long as they should, and are deleted", async ({ owner: page, service }) => {
  await page.goto(`${service.url}/demo/settings/namespaces`);
  await page.getByRole("button", { name: "New namespace" }).first().click();
  await page.getByRole("textbox", { name: "Name" }).fill("staging");
  await page.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("link", { name: "staging", exact: true })).toBeVisible();

  // How long finished jobs are kept: the plan's default until it is set here, and again after.
  const row = page.getByRole("row").filter({ hasText: "staging" });
  await expect(row).toContainText("7 d plan default");
  await page.getByRole("button", { name: "Retention of staging" }).click();
  await expect(page.getByText("deleted 7 d after they end. This can't be undone.")).toBeVisible();
  await page.getByLabel("Completed jobs", { exact: true }).selectOption({ label: "1 d" });
  await page.getByLabel("Dead jobs", { exact: true }).selectOption({ label: "Custom" });
  await page.getByLabel("Dead jobs, custom").fill("4000 d");
  await expect(page.getByText("Choose at least 1 min and at most 3,660 d.")).toBeVisible();
  await page.getByLabel("Dead jobs, custom").fill("45 d");
  await expect(page.getByText("completed_seconds = 86400")).toBeVisible();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(row).toContainText("1 d set here");
  await page.getByRole("button", { name: "Retention of staging" }).click();
  await expect(page.getByLabel("Dead jobs, custom")).toHaveValue("45 d");
  await page.getByLabel("Completed jobs", { exact: true }).selectOption({ label: "Plan default" });
  await page.getByRole("button", { name: "Save" }).click();
  await expect(row).toContainText("7 d plan default");

  await page.getByRole("button", { name: "Turn on deletion protection for staging" }).click();
  await expect(page.getByText("protected", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Turn off deletion protection for staging" }).click();
  await page.getByRole("button", { name: "Delete staging" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("staging");
  await page.getByRole("button", { name: "Delete namespace" }).click();
  await expect(page.getByRole("link", { name: "staging", exact: true })).toHaveCount(0);
});

test("a namespace or tenant that is not there says so, and leads to those that are", async ({ owner: page, service }) => {
  for (const path of ["/demo/atlantis", "/demo/atlantis/jobs", "/demo/atlantis/queues", "/demo/atlantis/approvals"]) {
    await page.goto(service.url + path);
    await expect(page.getByRole("heading", { name: "Namespace atlantis not found" })).toBeVisible();
    await expect(page.getByText(/Reconnecting|Loading|Try again/)).toHaveCount(0);
  }
  await page.getByRole("main").getByRole("link", { name: "default", exact: true }).click();
  await expect(page).toHaveURL(/\/demo\/default/);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();

  await page.goto(`${service.url}/atlantis/default/jobs`);
  await expect(page.getByRole("heading", { name: "Tenant atlantis not found" })).toBeVisible();
  await page.getByRole("link", { name: "demo", exact: true }).click();
  await expect(page).toHaveURL(/\/demo\/default/);
});
