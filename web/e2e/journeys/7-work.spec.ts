// What goes beyond single jobs: schedules, batches, chains, dead letters, approvals, usage.
// Everything is made over HTTP, as a program makes it, and looked at in the console.
import type { BrowserContextOptions } from "@playwright/test";
import { test as base, demoOwner, expect, MailServer, otherPerson, signIn } from "./fixtures.ts";

type Session = NonNullable<BrowserContextOptions["storageState"]>;

// One sign-in serves all of these: an address gets ten links an hour.
const test = base.extend<object, { session: Session }>({
  session: [
    async ({ browser, service, mail }, use) => {
      const page = await (await browser.newContext()).newPage();
      await signIn(page, service, mail, demoOwner);
      const { cookies } = await page.context().storageState();
      await page.context().close();
      await use({ cookies, origins: [] });
    },
    { scope: "worker", timeout: 60_000 },
  ],
  owner: async ({ page, session }, use) => {
    if (typeof session !== "string") await page.context().addCookies(session.cookies);
    await use(page);
  },
});

test("dead letters are grouped by their error, and run again", async ({ owner: page, service, demo }) => {
  for (const order of [1, 2, 3]) {
    await demo.enqueue("dead.letters", { order }, { max_retries: 1 });
    await demo.fail(await demo.fetch("dead.letters"), `order ${48_000 + order} has no address`);
  }
  const odd = await demo.enqueue("dead.letters", {}, { max_retries: 1 });
  await demo.fail(await demo.fetch("dead.letters"), "out of stamps");

  await page.goto(`${service.url}/demo/default/dead?queue=dead.letters`);
  await expect(page.getByText("4 jobs gave up in dead.letters")).toBeVisible();
  const errors = page.getByRole("navigation", { name: "Errors" });
  await expect(errors.getByRole("link").filter({ hasText: "has no address" })).toHaveText(/3$/);

  // One, by keyboard.
  await errors.getByRole("link").filter({ hasText: "out of stamps" }).click();
  await expect(page).toHaveURL(/error=out/);
  await expect(page.getByRole("row").filter({ hasText: odd })).toBeVisible();
  await page.keyboard.press("j");
  await page.keyboard.press("r");
  await expect(page.getByText("It runs again")).toBeVisible();
  expect((await demo.fetch("dead.letters")).job_id).toBe(odd);

  // All that died of the same.
  await errors.getByRole("link").filter({ hasText: "has no address" }).click();
  await page.getByRole("button", { name: "Run 3 again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
  await expect(page.getByText("Nothing dead in dead.letters")).toBeVisible();
  for (let n = 0; n < 3; n++) await demo.run("dead.letters");
});

test("held jobs are approved and rejected with a comment that stays", async ({ owner: page, service, demo }) => {
  const good = await demo.enqueue("refunds", { amount: "9007199254740993" });
  const bad = await demo.enqueue("refunds", { amount: "1" });
  for (const id of [good, bad]) await demo.call("POST", `/api/v1/jobs/${id}/hold`, { reason: `Look at ${id}` });

  await page.goto(`${service.url}/demo/default/approvals`);
  const row = page.getByRole("listitem").filter({ hasText: `Look at ${good}` });
  await row.getByText("Payload").click();
  await expect(row.getByText("9007199254740993")).toBeVisible();
  await row.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByLabel("Comment").fill("asked the customer");
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  await expect(row).toHaveCount(0);
  expect(await demo.run("refunds")).toBe(good);

  await page.getByRole("button", { name: `Reject ${bad}` }).click();
  await page.getByRole("dialog").getByLabel("Comment").fill("a typing mistake");
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await expect(page.getByText(`Look at ${bad}`)).toHaveCount(0);

  await page.goto(`${service.url}/demo/default/jobs/${bad}`);
  await expect(page.getByText("It was held, and rejected")).toBeVisible();
  await expect(page.getByText("a typing mistake").first()).toBeVisible();
});

test("a job is held from its page, and approved there", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("careful", {});
  await page.goto(`${service.url}/demo/default/jobs/${id}`);
  await page.getByRole("button", { name: "Hold", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("wait for the lawyer");
  await page.getByRole("dialog").getByRole("button", { name: "Hold", exact: true }).click();
  await expect(page.getByText("wait for the lawyer").first()).toBeVisible();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  await expect(page.getByRole("button", { name: "Hold", exact: true })).toBeVisible();
  expect(await demo.run("careful")).toBe(id);
});

test("a job says what stands in its way, while it does", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("stuck", {});
  await demo.call("POST", "/api/v1/queues/stuck/pause");
  await page.goto(`${service.url}/demo/default/jobs/${id}`);
  const why = page.getByRole("region", { name: "What stands in its way" });
  await expect(why.getByRole("listitem").first()).toContainText("Queue stuck is paused");
  await demo.call("POST", "/api/v1/queues/stuck/resume");
  await expect(why).not.toContainText("paused");
  expect(await demo.run("stuck")).toBe(id);
  await expect(why).toHaveCount(0);
});

test("a queue drains, takes jobs again, and has retry defaults", async ({ owner: page, service, demo }) => {
  await demo.enqueue("tidy", { n: 1 });
  await page.goto(`${service.url}/demo/default/queues`);
  const row = page.getByRole("row").filter({ hasText: "tidy" });
  await page.getByRole("button", { name: "Limits of tidy" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await expect(row.getByText("Draining")).toBeVisible();
  expect((await demo.call("POST", "/api/v1/enqueue", { queue: "tidy", payload: {} })).status).toBe(409);
  await demo.run("tidy");
  await page.getByRole("button", { name: "Resume tidy" }).click();
  await expect(row.getByText("Open")).toBeVisible();

  await page.getByRole("button", { name: "Limits of tidy" }).click();
  await page.getByRole("dialog").getByLabel("Attempts").fill("7");
  await page.getByRole("dialog").getByLabel("First pause").fill("90s");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  const id = await demo.enqueue("tidy", {});
  expect((await demo.call("GET", `/api/v1/jobs/${id}`)).body).toMatchObject({ max_retries: 7, retry_base_delay_ms: 90_000 });

  await page.getByRole("button", { name: "Limits of tidy" }).click();
  await expect(page.getByRole("dialog").getByLabel("Attempts")).toHaveValue("7");
});

test("a schedule is made with a preview, runs now, pauses, changes and goes", async ({ owner: page, service, demo }) => {
  await page.goto(`${service.url}/demo/default/schedules`);
  await page.getByRole("button", { name: "New schedule" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("nightly");
  await dialog.getByLabel("Queue").fill("night.shift");
  await dialog.getByLabel("Time zone").fill("Europe/Berlin");
  await dialog.getByLabel("Cron expression").fill("61 2 * * *");
  await expect(dialog.locator(".text-danger-text").first()).toBeVisible();
  await dialog.getByLabel("Cron expression").fill("30 2 * * 1-5");
  await expect(dialog.getByText("At 02:30, Monday through Friday")).toBeVisible();
  await expect(dialog.getByRole("list", { name: "Next runs" }).getByRole("listitem")).toHaveCount(5);
  await expect(dialog.getByRole("list", { name: "Next runs" }).getByText(/02:30:00/).first()).toBeVisible();
  await dialog.getByLabel("Payload").fill('{"big": 9007199254740993}');
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(dialog).toHaveCount(0);

  await page.getByRole("button", { name: "Run nightly now" }).click();
  const lease = await demo.fetch("night.shift");
  expect(lease).toMatchObject({ queue: "night.shift" });
  await demo.ack(lease);
  await page.getByRole("link", { name: "nightly" }).click();
  await expect(page.getByRole("region", { name: "Payload" })).toContainText("9007199254740993");
  await expect(page.getByRole("link", { name: lease.job_id })).toBeVisible();

  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await expect(page.getByText("None while it is paused.")).toBeVisible();
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await dialog.getByLabel("Cron expression").fill("@hourly");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("At the start of every hour")).toBeVisible();
  // What was not touched stayed: the pause, and every digit.
  await expect(page.getByText("None while it is paused.")).toBeVisible();
  await expect(page.getByRole("region", { name: "Payload" })).toContainText("9007199254740993");

  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page).toHaveURL(`${service.url}/demo/default/schedules`);
  await expect(page.getByRole("link", { name: "nightly" })).toHaveCount(0);
});

test("a batch counts its jobs while they end, and calls back once sealed", async ({ owner: page, service, demo }) => {
  const made = await demo.call("POST", "/api/v1/enqueue/batch", {
    jobs: [1, 2].map((image) => ({ queue: "thumbs", payload: { image }, max_retries: 1 })),
    batch: { callback_queue: "albums", callback_payload: { album: 7 }, open: true },
  });
  const { batch_id } = made.body as { batch_id: string };
  await page.goto(`${service.url}/demo/default/batches`);
  await page.getByRole("link", { name: batch_id }).click();
  await expect(page.getByText("0 of 2 jobs have ended")).toBeVisible();
  await demo.enqueue("thumbs", { image: 3 }, { batch_id, max_retries: 1 });
  await expect(page.getByText("0 of 3 jobs have ended")).toBeVisible();
  await demo.run("thumbs");
  await demo.run("thumbs");
  await demo.fail(await demo.fetch("thumbs"), "no such image");
  await expect(page.getByText("3 of 3 jobs have ended")).toBeVisible();
  await expect(page.getByText("1 dead", { exact: true })).toBeVisible();

  await page.getByRole("button", { name: "Seal" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Seal" }).click();
  await expect(page.getByText("Every job has ended, and its callback is enqueued.")).toBeVisible();
  const callback = await demo.fetch("albums");
  expect(callback).toMatchObject({ payload: { album: 7, completed: 2, dead: 1 } });
  await page.getByRole("region", { name: "The batch and its callback" }).getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText(callback.job_id);
});

test("a chain is a graph that follows its steps; its jobs show it too", async ({ owner: page, service, demo }) => {
  const first = await demo.enqueue("chain.one", {}, {
    chain: {
      steps: [{ queue: "chain.one", payload: { n: 1 } }, { queue: "chain.two" }, { queue: "chain.three" }],
      on_failure: { queue: "chain.alert" },
    },
    max_retries: 1,
  });
  await page.goto(`${service.url}/demo/default/chains`);
  await page.getByRole("table", { name: "Chains" }).getByRole("link").first().click();
  const graph = page.getByRole("region", { name: "Steps of the chain" });
  await expect(graph.getByRole("listitem")).toHaveCount(4);
  await expect(graph.getByRole("link")).toHaveCount(1);
  expect(await demo.run("chain.one")).toBe(first);
  await expect(page.getByText("1 of 3 steps done")).toBeVisible();
  await expect(graph.getByRole("link").filter({ hasText: "chain.two" })).toContainText("Pending");
  await demo.fail(await demo.fetch("chain.two"), "cannot go on");
  await expect(page.getByText("Step 2 is dead.")).toBeVisible();
  await graph.getByRole("link").filter({ hasText: "chain.alert" }).click();
  const own = page.getByRole("region", { name: "Steps of its chain" });
  await expect(own.locator('[aria-current="true"]')).toContainText("On failure");
});

test("a job shows what it waits for, and goes when that is done", async ({ owner: page, service, demo }) => {
  const parts = [await demo.enqueue("parts", { n: 1 }), await demo.enqueue("parts", { n: 2 })];
  const whole = await demo.enqueue("whole", {}, { depends_on: parts });
  await page.goto(`${service.url}/demo/default/jobs/${whole}`);
  await expect(page.getByText("It waits for 2 jobs to be done.")).toBeVisible();
  const graph = page.getByRole("region", { name: "Jobs that it waits for" });
  await expect(graph.getByRole("link").filter({ hasText: "parts" })).toHaveCount(2);
  for (const _ of parts) await demo.run("parts");
  await expect(page.getByText("Nothing is left to wait for.")).toBeVisible();
  expect(await demo.run("whole")).toBe(whole);
});

test("a policy holds the jobs it names, a budget is set, both from the console", async ({ owner: page, service, demo }) => {
  await page.goto(`${service.url}/demo/default/approvals?tab=policies`);
  await page.getByRole("button", { name: "New policy" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("big payouts");
  await dialog.getByLabel("Jobs of the queue").fill("payouts");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("row").filter({ hasText: "big payouts" })).toContainText("jobs of payouts");
  const id = await demo.enqueue("payouts", {});
  await page.getByRole("tab", { name: /Waiting/ }).click();
  await expect(page.getByRole("listitem").filter({ hasText: id })).toBeVisible();
  await page.getByRole("tab", { name: "Policies" }).click();
  await page.getByRole("button", { name: "Delete big payouts" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No approval policies")).toBeVisible();

  await page.goto(`${service.url}/demo/default/usage`);
  await page.getByRole("button", { name: "New budget" }).click();
  await dialog.getByLabel("Counts").selectOption({ label: "a queue" });
  await dialog.getByRole("textbox", { name: "Queue" }).or(dialog.getByLabel("Queue", { exact: true })).first().fill("summarize");
  await dialog.getByLabel("A day").fill("20");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("table", { name: "Budgets" }).getByRole("row").filter({ hasText: "summarize" })).toContainText("$20.00");
  await page.getByRole("button", { name: "Delete the budget of summarize" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No budgets")).toBeVisible();
});

test("a viewer sees all of it and may change none", async ({ owner: page, service, demo, mail }) => {
  const id = await demo.enqueue("looked.at", {});
  await demo.call("POST", `/api/v1/jobs/${id}/hold`, { reason: "only look" });
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("E-mail address").fill("looker@example.com");
  await page.getByLabel("Role", { exact: true }).selectOption({ label: "Viewer" });
  await page.getByRole("button", { name: "Send the invitation" }).click();
  const other = await otherPerson(page);
  await other.page.goto(MailServer.link(await mail.next("looker@example.com", /join/i)));
  await other.page.getByRole("button", { name: /join|accept/i }).click();
  await expect(other.page.getByRole("navigation").first()).toBeVisible();
  await other.page.goto(`${service.url}/demo/default/approvals`);
  await expect(other.page.getByText("only look")).toBeVisible();
  await expect(other.page.getByRole("button", { name: `Approve ${id}` })).toHaveAttribute("aria-disabled", "true");
  await other.context.close();
  await demo.call("POST", `/api/v1/jobs/${id}/reject`, {});
});

test("usage is summed up as workers report it", async ({ owner: page, service, demo }) => {
  for (const [model, cost_usd] of [["large", 1.25], ["small", 0.25]] as const) {
    await demo.enqueue("summarize", {});
    const lease = await demo.fetch("summarize");
    await demo.call("POST", `/api/v1/ack/${lease.job_id}`, {
      lease_token: lease.lease_token,
      usage: { provider: "acme", model, input_tokens: 1200, output_tokens: 300, cost_usd },
    });
  }
  await page.goto(`${service.url}/demo/default/usage`);
  await expect(page.getByRole("row").filter({ hasText: "summarize" })).toContainText("$1.50");
  await page.getByLabel("Grouped by").selectOption({ label: "by model" });
  await expect(page).toHaveURL(/by=model/);
  await expect(page.getByRole("row").filter({ hasText: "large" })).toContainText("$1.25");
});
