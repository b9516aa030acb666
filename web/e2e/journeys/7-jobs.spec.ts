// What goes beyond single jobs: schedules, batches, chains, dead letters, approvals, usage.
// Everything is made over HTTP, as a program makes it, and looked at in the console.
import type { BrowserContextOptions, Page } from "@playwright/test";
import type { Lease } from "../rig/jobs.ts";
import { test as base, demoOwner, expect, MailServer, otherPerson, signIn, type Tenant } from "./fixtures.ts";

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

/** A lease of a new job that has no second attempt. */
async function buried(demo: Tenant, queue: string): Promise<Lease> {
  await demo.enqueue(queue, {}, { max_retries: 1 });
  return await demo.fetch(queue);
}

/** Calls the jobs API with the token of the person who is signed in to a page, and answers the status. */
async function asSomebodyIn(page: Page, path: string, body: object): Promise<number> {
  return await page.evaluate(
    async ([path, body]) => {
      const post = (url: string, body: unknown, token?: string) =>
        fetch(url, {
          method: "POST",
          headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
          body: JSON.stringify(body),
        });
      const minted = await post("/corvo.cloud.v1.AuthService/MintToken", { tenant: "demo", namespace: "default" });
      const { token } = (await minted.json()) as { token: string };
      return (await post(`/t/demo/api/v1/${path}`, body, token)).status;
    },
    [path, body] as const,
  );
}

/** A dialog that waits for an answer. Toasts have the role too, and stay while the mouse is on them. */
const modal = (page: Page) => page.locator('[role="dialog"]:not([data-type])');

/** Makes jobs die of these errors, in this order, many at a time. */
async function perish(demo: Tenant, queue: string, errors: readonly string[]): Promise<void> {
  const jobs = errors.map((error) => ({ queue, payload: { error }, max_retries: 1 }));
  expect((await demo.call("POST", "/api/v1/enqueue/batch", { jobs })).status).toBeLessThan(300);
  for (let left = errors.length; left > 0; ) {
    const { body } = await demo.call("POST", "/api/v1/fetch/batch", { queues: [queue], worker_id: "journey", count: 100, wait: 5, lease: 300 });
    const { jobs: leased } = body as { jobs: (Lease & { payload: { error: string } })[] };
    for (let from = 0; from < leased.length; from += 20)
      await Promise.all(leased.slice(from, from + 20).map((lease) => demo.fail(lease, lease.payload.error)));
    left -= leased.length;
  }
}

/** All that the service counts of a queue, once its list has caught up. */
async function countedDead(demo: Tenant, queue: string, jobs: number): Promise<{ id: string; error: string; count: number }[]> {
  type Counted = { groups: { id: string; error: string; count: number }[]; total_jobs: number };
  let counted: Counted | undefined;
  await expect
    .poll(async () => {
      counted = (await demo.call("GET", `/api/v1/dead/groups?queue=${queue}`)).body as Counted;
      return counted.total_jobs;
    })
    .toBe(jobs);
  return counted?.groups ?? [];
}

test("dead letters are counted by their error, however many there are, and one error is retried as a whole", async ({ owner: page, service, demo }) => {
  test.slow(); // Each job is enqueued, leased and failed.
  // More than a page of the list, of which one error alone fills a page.
  const errors = [
    ...Array.from({ length: 110 }, (_, n) => `order ${48_000 + n} has no address`),
    ...Array.from({ length: 30 }, (_, n) => `carrier answered 503 after ${n} ms`),
    "out of stamps",
  ];
  await perish(demo, "dead.letters", errors);
  await countedDead(demo, "dead.letters", 141);
  const [odd] = ((await demo.call("GET", "/api/v1/dead?queue=dead.letters&limit=1")).body as { jobs: { id: string; last_error: string }[] }).jobs;
  expect(odd?.last_error).toBe("out of stamps");

  await page.goto(`${service.url}/demo/default/dead?queue=dead.letters`);
  await expect(page.getByText("141 dead jobs in dead.letters")).toBeVisible();
  const nav = page.getByRole("navigation", { name: "Errors" });
  const error = (text: string) => nav.getByRole("link").filter({ hasText: text });
  await expect(nav.getByRole("link")).toHaveText([/^All 3 errors141$/, /^order … has no address.*110$/, /^carrier answered 503 after … ms.*30$/, /^out of stamps.*1$/]);
  const rows = page.getByRole("table", { name: "Dead jobs" }).locator("tbody tr");
  await expect(rows).toHaveCount(100);
  await page.getByRole("button", { name: "Show more" }).click();
  await expect(rows).toHaveCount(141);

  // One, by keyboard.
  await error("out of stamps").click();
  await expect(page).toHaveURL(/group=[0-9a-f%]{16}/);
  await expect(rows).toHaveCount(1);
  await expect(rows).toContainText(odd?.id ?? "");
  await page.keyboard.press("j");
  await page.keyboard.press("r");
  await expect(page.getByText("Job retried")).toBeVisible();
  await expect(page.getByRole("heading", { name: "No dead jobs with this error" })).toBeVisible();
  expect((await demo.fetch("dead.letters")).job_id).toBe(odd?.id);

  // All of one error: those of the other stay dead. The address alone leads there.
  await error("carrier").click();
  await expect(page.getByRole("region", { name: "This error" })).toContainText("30 jobs in dead.letters");
  const link = page.url();
  await page.goto(`${service.url}/demo/default`);
  await page.goto(link);
  await expect(rows).toHaveCount(30);
  await page.getByRole("button", { name: "Retry 30" }).click();
  const dialog = page.getByRole("dialog", { name: "Retry 30 jobs?" });
  await expect(dialog).toContainText("carrier answered 503 after … ms");
  await dialog.getByRole("button", { name: "Retry jobs" }).click();
  await expect(page.getByText("Retried 30 jobs")).toBeVisible();
  await expect(nav.getByRole("link")).toHaveText([/^All errors110$/, /^order … has no address.*110$/]);
  expect((await demo.call("GET", "/api/v1/queues/dead.letters")).body).toMatchObject({ dead: 110, pending: 30 });

  // Who follows the link now is told that nothing is left.
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "No dead jobs with this error" })).toBeVisible();
  await page.getByRole("button", { name: "Show all errors" }).click();

  // Deleting many asks for the queue's name.
  await error("has no address").click();
  await page.getByRole("button", { name: "Delete 110" }).click();
  const sure = page.getByRole("dialog", { name: "Delete 110 jobs?" });
  await expect(sure.getByRole("button", { name: "Delete jobs" })).toHaveAttribute("aria-disabled", "true");
  await sure.getByRole("textbox").fill("dead.letters");
  await sure.getByRole("button", { name: "Delete jobs" }).click();
  await expect(page.getByText("Deleted 110 jobs")).toBeVisible();
  await expect(page.getByRole("heading", { name: "No dead jobs in dead.letters" })).toBeVisible();
  await demo.call("POST", "/api/v1/queues/dead.letters/clear");
});

test("an operation on dead letters shows how far it is, goes on when its dialog is closed, and says what it left", async ({ owner: page, service, demo }) => {
  await perish(demo, "slow.letters", ["stuck in the mail", "stuck in the mail"]);
  const [group] = await countedDead(demo, "slow.letters", 2);
  // As slow as a million jobs: the service's answers, held back.
  const at = { id: "bulk_1", action: "retry", status: "running", total: 50_000, processed: 20_000, affected: 20_000, errors: 0 };
  let answer: object = at;
  await page.route("**/api/v1/jobs/bulk", (route) => route.fulfill({ status: 202, json: { bulk_operation_id: "bulk_1", status: "queued" } }));
  await page.route("**/api/v1/bulk/bulk_1", (route) => route.fulfill({ json: answer }));

  await page.goto(`${service.url}/demo/default/dead?group=${group?.id}`);
  const begin = async () => {
    await page.getByRole("button", { name: "Retry 2" }).click();
    await modal(page).getByRole("button", { name: "Retry jobs" }).click();
    await expect(modal(page).getByRole("progressbar")).toHaveAttribute("aria-valuetext", "20,000 of 50,000 (40%)");
  };
  await begin();
  answer = { ...at, status: "completed", processed: 50_000, affected: 49_999, errors: 1, refused: [{ job_id: "job_1", code: "CONFLICT", error: "a unique job has its place" }] };
  await expect(modal(page)).toContainText("1 job skipped");
  await expect(modal(page)).toContainText("a unique job has its place");
  await modal(page).getByRole("button", { name: "Close" }).last().click();
  await expect(page).not.toHaveURL(/group=/);

  answer = at;
  await page.goBack();
  await begin();
  await modal(page).getByRole("button", { name: "Close" }).last().click();
  await expect(modal(page)).toHaveCount(0);
  answer = { ...at, status: "failed", error: "the list of jobs is behind" };
  const toasts = page.getByRole("region", { name: "Notifications" });
  await expect(toasts).toContainText("Couldn't retry all jobs");
  await expect(toasts).toContainText("The list of jobs is behind.");
  await page.unrouteAll();
  await demo.call("POST", "/api/v1/queues/slow.letters/clear");
});

test("the page of dead letters says when it is behind, when it can't count, and when there are more errors", async ({ owner: page, service, demo }) => {
  await perish(demo, "odd.letters", ["lost at sea"]);
  const groups = await countedDead(demo, "odd.letters", 1);
  const counted = (more: object) => ({ groups, total_groups: 1, total_jobs: 1, has_more: false, lag_ms: 0, rebuilding: false, ...more });
  let answer: object | undefined;
  const asked: string[] = [];
  await page.route("**/api/v1/dead/groups*", (route) => {
    asked.push(new URL(route.request().url()).searchParams.get("limit") ?? "");
    return answer ? route.fulfill({ json: answer }) : route.fulfill({ status: 400, json: { error: "no counts today", code: "TEST" } });
  });
  const nav = page.getByRole("navigation", { name: "Errors" });
  await page.goto(`${service.url}/demo/default/dead?queue=odd.letters`);
  await expect(nav.getByRole("alert")).toContainText("No counts today.");
  await expect(page.getByRole("table", { name: "Dead jobs" })).toContainText("lost at sea");
  answer = counted({ total_groups: 4_000, has_more: true, lag_ms: 65_000, rebuilding: true, rebuild: { jobs_done: 1_000, jobs_total: 2_000 } });
  await nav.getByRole("button", { name: "Try again" }).click();
  await expect(nav).toContainText("The 1 most frequent of 4,000 errors.");
  await expect(page.getByText("Updated 1 min ago.")).toBeVisible();
  await expect(page.getByText("1,000 of about 2,000 jobs so far.")).toBeVisible();
  await nav.getByRole("button", { name: "Show more errors" }).click();
  await expect(nav).toContainText("Choose a queue to see more of them.");
  expect(asked.slice(-1)).toEqual(["1000"]);
  await page.unrouteAll();
  await demo.call("POST", "/api/v1/queues/odd.letters/clear");
});

test("all dead jobs of a queue run again, from its dead letters and from the queues", async ({ owner: page, service, demo }) => {
  for (const _ of [1, 2, 3]) await demo.fail(await buried(demo, "graveyard"), "for ever gone");
  await page.goto(`${service.url}/demo/default/dead?queue=graveyard`);
  await page.getByRole("button", { name: "Retry all 3" }).click();
  await page.getByRole("dialog", { name: "Retry 3 dead jobs in graveyard?" }).getByRole("button", { name: "Retry jobs" }).click();
  await expect(page.getByText("Retried 3 jobs")).toBeVisible();
  await expect(page.getByRole("heading", { name: "No dead jobs in graveyard" })).toBeVisible();
  for (const error of ["once more", "once more", "once more"]) await demo.fail(await demo.fetch("graveyard"), error);

  await page.goto(`${service.url}/demo/default/queues`);
  await page.getByRole("button", { name: "Retry dead jobs in graveyard" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry jobs" }).click();
  await expect(page.getByText("Retried 3 jobs")).toBeVisible();
  await expect(page.getByRole("button", { name: "Retry dead jobs in graveyard" })).toHaveCount(0);
  for (const _ of [1, 2, 3]) await demo.run("graveyard");
});

test("a job moves to another queue by keyboard, and back; those of one error move together", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("wrong.queue", {});
  await demo.enqueue("right.queue", {});
  await page.goto(`${service.url}/demo/default/jobs/${id}`);
  await expect(page.getByRole("button", { name: "Move" })).toBeVisible();
  await page.keyboard.press("m");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByLabel("Queue")).toBeFocused();
  await dialog.getByLabel("Queue").fill("not a name");
  await expect(dialog.getByText("Start with a letter or digit")).toBeVisible();
  await dialog.getByLabel("Queue").fill("right.queue");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Moved to right.queue")).toBeVisible();
  await expect(page.getByRole("link", { name: "right.queue" })).toBeVisible();
  expect((await demo.call("GET", `/api/v1/jobs/${id}`)).body).toMatchObject({ queue: "right.queue", state: "pending" });
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(page.getByRole("link", { name: "wrong.queue" })).toBeVisible();
  const lease = await demo.fetch("wrong.queue");
  expect(lease.job_id).toBe(id);
  await expect(page.getByRole("button", { name: "Move" })).toHaveAttribute("aria-disabled", "true");
  await demo.ack(lease);
  await demo.run("right.queue");

  for (const _ of [1, 2]) await demo.fail(await buried(demo, "wrong.queue"), "not mine");
  await page.goto(`${service.url}/demo/default/dead?queue=wrong.queue`);
  await page.getByRole("navigation", { name: "Errors" }).getByRole("link").filter({ hasText: "not mine" }).click();
  await page.getByRole("button", { name: "Move 2" }).click();
  await modal(page).getByLabel("Queue").fill("wrong.queue");
  await expect(modal(page).getByRole("button", { name: "Move jobs" })).toHaveAttribute("aria-description", "The jobs are already in this queue.");
  await modal(page).getByLabel("Queue").fill("right.queue");
  await modal(page).getByRole("button", { name: "Move jobs" }).click();
  await expect(page.getByText("Moved 2 jobs to right.queue")).toBeVisible();
  await expect(modal(page)).toHaveCount(0);
  expect((await demo.call("POST", "/api/v1/queues/right.queue/requeue")).body).toMatchObject({ requeued: 2 });
  for (const _ of [1, 2]) await demo.run("right.queue");
});

test("a queue is cleared once its name is typed, but for what workers have", async ({ owner: page, service, demo }) => {
  for (const _ of [1, 2, 3]) await demo.enqueue("clutter", {});
  const lease = await demo.fetch("clutter");
  await page.goto(`${service.url}/demo/default/queues`);
  await page.getByRole("button", { name: "Edit clutter" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Clear", exact: true }).click();
  const clear = dialog.getByRole("button", { name: "Clear queue" });
  await expect(dialog).toContainText("This deletes 2 jobs and can't be undone.");
  await expect(clear).toHaveAttribute("aria-disabled", "true");
  await dialog.getByRole("textbox").fill("clutte");
  await expect(clear).toHaveAttribute("aria-disabled", "true");
  await dialog.getByRole("textbox").fill("clutter");
  await clear.click();
  await expect(page.getByText("Deleted 2 jobs.")).toBeVisible();
  await expect(page.getByRole("row").filter({ hasText: "clutter" })).toBeVisible();
  expect((await demo.call("GET", "/api/v1/queues/clutter")).body).toMatchObject({ pending: 0, active: 1 });
  await demo.ack(lease);
});

test("held jobs are approved and rejected with a comment that stays", async ({ owner: page, service, demo }) => {
  const good = await demo.enqueue("refunds", { amount: "9007199254740993" });
  const bad = await demo.enqueue("refunds", { amount: "1" });
  for (const id of [good, bad]) await demo.call("POST", `/api/v1/jobs/${id}/hold`, { reason: `Look at ${id}` });

  await page.goto(`${service.url}/demo/default/approvals`);
  const row = page.getByRole("listitem").filter({ hasText: `Look at ${good}` });
  await expect(row.getByText("requested by development")).toBeVisible();
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

  // Toasts of both are still there; the buttons of a dialog as tall as the window are not below them.
  await page.setViewportSize({ width: 1280, height: 640 });
  await page.getByRole("tab", { name: "Policies" }).click();
  await page.getByRole("button", { name: "New policy" }).first().click();
  await expect(modal(page).getByRole("button", { name: "Create" })).toBeVisible();
  await expect(page.locator('[role="dialog"][data-type]')).toHaveCount(2);
  for (const button of await modal(page).getByRole("button").all()) await button.click({ trial: true, timeout: 2_000 });
  await page.keyboard.press("Escape");
  await expect(modal(page)).toHaveCount(0);

  await page.goto(`${service.url}/demo/default/jobs/${bad}`);
  await expect(page.getByText("Rejected").first()).toBeVisible();
  await expect(page.getByText("a typing mistake").first()).toBeVisible();
  await expect(page.getByText(`by ${demoOwner}: a typing mistake`)).toBeVisible();
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
  const why = page.getByRole("region", { name: "Why it isn't running" });
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
  await page.getByRole("button", { name: "Edit tidy" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await expect(row.getByText("Draining")).toBeVisible();
  const refused = await demo.call("POST", "/api/v1/enqueue", { queue: "tidy", payload: {} });
  expect([refused.status, refused.body]).toMatchObject([400, { code: "QUEUE_DRAINING" }]);
  await demo.run("tidy");
  await page.getByRole("button", { name: "Resume tidy" }).click();
  await expect(row.getByText("Open")).toBeVisible();

  await page.getByRole("button", { name: "Edit tidy" }).click();
  await page.getByRole("dialog").getByLabel("Attempts").fill("7");
  await page.getByRole("dialog").getByLabel("First delay").fill("90s");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await expect(modal(page)).toHaveCount(0);
  const id = await demo.enqueue("tidy", {});
  expect((await demo.call("GET", `/api/v1/jobs/${id}`)).body).toMatchObject({ max_retries: 7, retry_base_delay_ms: 90_000 });

  await page.getByRole("button", { name: "Edit tidy" }).click();
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
  await expect(modal(page)).toHaveCount(0);

  await page.getByRole("button", { name: "Run nightly now" }).click();
  const lease = await demo.fetch("night.shift");
  expect(lease).toMatchObject({ queue: "night.shift" });
  await demo.ack(lease);
  await page.getByRole("link", { name: "nightly" }).click();
  await expect(page.getByRole("region", { name: "Payload" })).toContainText("9007199254740993");
  await expect(page.getByRole("link", { name: lease.job_id })).toBeVisible();

  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await expect(page.getByText("None while it is paused.")).toBeVisible();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
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
  await expect(page.getByText("0 of 2 jobs finished")).toBeVisible();
  await demo.enqueue("thumbs", { image: 3 }, { batch_id, max_retries: 1 });
  await expect(page.getByText("0 of 3 jobs finished")).toBeVisible();
  await demo.run("thumbs");
  await demo.run("thumbs");
  await demo.fail(await demo.fetch("thumbs"), "no such image");
  await expect(page.getByText("3 of 3 jobs finished")).toBeVisible();
  await expect(page.getByText("1 dead", { exact: true })).toBeVisible();

  await page.getByRole("button", { name: "Seal" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Seal" }).click();
  await expect(page.getByText("All jobs have finished and the callback is enqueued.")).toBeVisible();
  const callback = await demo.fetch("albums");
  expect(callback).toMatchObject({ payload: { album: 7, completed: 2, dead: 1 } });
  await page.getByRole("region", { name: "Batch and callback" }).getByRole("link").click();
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
  await expect(page.getByText("1 of 3 steps completed")).toBeVisible();
  await expect(graph.getByRole("link").filter({ hasText: "chain.two" })).toContainText("Pending");
  await demo.fail(await demo.fetch("chain.two"), "cannot go on");
  await expect(page.getByText("Step 2 is dead.")).toBeVisible();
  await graph.getByRole("link").filter({ hasText: "chain.alert" }).click();
  const own = page.getByRole("region", { name: "Chain steps" });
  await expect(own.locator('[aria-current="true"]')).toContainText("On failure");
});

test("a job shows what it waits for, and goes when that is done", async ({ owner: page, service, demo }) => {
  const parts = [await demo.enqueue("parts", { n: 1 }), await demo.enqueue("parts", { n: 2 })];
  const whole = await demo.enqueue("whole", {}, { depends_on: parts });
  await page.goto(`${service.url}/demo/default/jobs/${whole}`);
  await expect(page.getByText("Waiting for 2 other jobs to complete.")).toBeVisible();
  const graph = page.getByRole("region", { name: "Dependencies" });
  await expect(graph.getByRole("link").filter({ hasText: "parts" })).toHaveCount(2);
  for (const _ of parts) await demo.run("parts");
  await expect(page.getByText("All dependencies have completed.")).toBeVisible();
  expect(await demo.run("whole")).toBe(whole);
});

test("throughput follows what happens, as bars and as a table", async ({ owner: page, service, demo }) => {
  await demo.enqueue("paced", {});
  await page.goto(`${service.url}/demo/default/queues`);
  const enqueued = page.getByRole("img", { name: /^Enqueued: / });
  const inTheHour = async () => Number(/([\d,]+) in the last hour$/.exec((await enqueued.getAttribute("aria-label")) ?? "")?.[1]?.replaceAll(",", ""));
  await expect(enqueued).toHaveAttribute("aria-label", /in the last hour$/);
  await expect.poll(inTheHour).toBeGreaterThan(0);
  const before = await inTheHour();
  for (const _ of [1, 2, 3]) await demo.enqueue("paced", {});
  await expect.poll(inTheHour).toBe(before + 3);
  for (const _ of [1, 2, 3, 4]) await demo.run("paced");
  await page.getByText("View as table").click();
  const table = page.getByRole("region", { name: "Throughput as a table" }).getByRole("table");
  await expect(table.getByRole("columnheader")).toHaveText(["Minute", "Enqueued", "Completed", "Failed"]);
  const sum = async () => {
    const cells = await table.locator("tbody td:nth-child(2)").allTextContents();
    return cells.reduce((all, cell) => all + Number(cell.replaceAll(",", "")), 0);
  };
  await expect.poll(sum).toBe(before + 3);
});

test("the workers page follows who connects, and which job they have", async ({ owner: page, service, demo }) => {
  const fetch = (wait: string) =>
    demo.call("POST", "/api/v1/fetch", { queues: ["crates", "pallets"], worker_id: "mover-1", hostname: "rack-7", wait, lease: "10m" });
  await page.goto(`${service.url}/demo/default/workers`);
  await expect(page.getByRole("heading", { level: 1, name: "Workers" })).toBeVisible();
  await fetch("1ms");
  const row = page.getByRole("row").filter({ hasText: "mover-1" });
  await expect(row).toContainText("Waiting");
  await expect(row).toContainText("rack-7");
  for (const queue of ["crates", "pallets"]) await expect(row.getByRole("link", { name: queue })).toBeVisible();

  const id = await demo.enqueue("crates", {});
  const { body } = await fetch("5s");
  await expect(row).toContainText("Working");
  await expect(row.getByRole("link", { name: id.slice(-6) })).toBeVisible();
  await demo.ack(body as Lease);
  await expect(row).toContainText("Waiting");
});

test("an agent job shows its iterations as they end, and goes on from one of them in a new job", async ({ owner: page, service, demo }) => {
  const id = await demo.enqueue("research", { question: 1 }, { agent: { max_iterations: 2, max_cost_usd: 5 } });
  const iterate = async (checkpoint: object, cost_usd: number) => {
    const { job_id, lease_token } = await demo.fetch("research");
    const usage = { provider: "acme", model: "deep", input_tokens: 1000, output_tokens: 200, cost_usd };
    await demo.call("POST", `/api/v1/ack/${job_id}`, { lease_token, agent_status: "continue", checkpoint, usage });
  };
  await page.goto(`${service.url}/demo/default/jobs/${id}`);
  await page.getByRole("tab", { name: "Iterations" }).click();
  await expect(page).toHaveURL(/tab=iterations/);
  await expect(page.getByText("No iterations yet.")).toBeVisible();
  await iterate({ seen: ["9007199254740993"], exact: 1 }, 0.25);
  const rows = page.getByRole("list", { name: "Iterations" }).getByRole("listitem");
  await expect(rows).toHaveCount(1);
  await iterate({ seen: [] }, 0.5);
  await expect(rows).toHaveCount(2);
  await expect(rows.first()).toContainText("Continued");
  await expect(rows.first()).toContainText("$0.25 · 1,200 tokens · deep");
  await expect(page.getByText("$0.75 of $5.00")).toBeVisible();
  await expect(page.getByText("max_iterations reached").first()).toBeVisible();
  await page.getByRole("tab", { name: "Timeline" }).click();
  for (const said of ["Iteration 1 started", "Iteration 1 completed", "Iteration 2 started"]) await expect(page.getByText(said)).toBeVisible();
  await page.getByRole("tab", { name: "Iterations" }).click();

  await page.getByRole("button", { name: "Replay from iteration 1" }).click();
  await expect(page.getByRole("region", { name: "Checkpoint of iteration 1" })).toContainText("9007199254740993");
  await page.getByRole("dialog").getByRole("button", { name: "Replay job" }).click();
  await expect(page.getByText("Replaying from iteration 1", { exact: true })).toBeVisible();
  await expect(page.getByRole("link", { name: id })).toBeVisible();
  const next = await demo.fetch("research");
  expect(next.job_id).not.toBe(id);
  expect(next).toMatchObject({ checkpoint: { seen: ["9007199254740993"] } });
  await demo.ack(next);
});

test("a job leads to the schedule, the batch and the chain that it belongs to", async ({ owner: page, service, demo }) => {
  const made = await demo.call("POST", "/api/v1/schedules", { name: "leads", cron: "0 4 * * *", queue: "leads.scheduled" });
  const schedule = (made.body as { id: string }).id;
  await demo.call("POST", `/api/v1/schedules/${schedule}/run`);
  const inBatch = await demo.call("POST", "/api/v1/enqueue/batch", { jobs: [{ queue: "leads.batch", payload: {} }], batch: { callback_queue: "leads.done" } });
  const batch = (inBatch.body as { batch_id: string }).batch_id;
  const inChain = await demo.call("POST", "/api/v1/enqueue", { queue: "leads.chain", chain: { steps: [{ queue: "leads.chain" }, { queue: "leads.chain" }] } });
  const chain = (inChain.body as { chain_id: string }).chain_id;
  for (const [queue, id, title] of [
    ["leads.scheduled", schedule, "leads"],
    ["leads.batch", batch, batch],
    ["leads.chain", chain, chain],
  ] as const) {
    await page.goto(`${service.url}/demo/default/jobs/${await demo.run(queue)}`);
    await page.getByRole("link", { name: id, exact: true }).click();
    await expect(page.getByRole("heading", { level: 1 })).toContainText(title);
  }
  await demo.call("DELETE", `/api/v1/schedules/${schedule}`);
});

test("a policy holds the jobs it names, a budget is set, both from the console", async ({ owner: page, service, demo }) => {
  await page.goto(`${service.url}/demo/default/approvals?tab=policies`);
  await page.getByRole("button", { name: "New policy" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("big payouts");
  await dialog.getByLabel("Queue").fill("payouts");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("row").filter({ hasText: "big payouts" })).toContainText("queue payouts");
  const id = await demo.enqueue("payouts", {});
  await page.getByRole("tab", { name: /Waiting/ }).click();
  await expect(page.getByRole("listitem").filter({ hasText: id })).toBeVisible();
  await page.getByRole("tab", { name: "Policies" }).click();
  await page.getByRole("button", { name: "Delete big payouts" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No approval policies")).toBeVisible();

  await page.goto(`${service.url}/demo/default/usage`);
  await page.getByRole("button", { name: "New budget" }).click();
  await dialog.getByLabel("Applies to").selectOption({ label: "a queue" });
  await dialog.getByRole("textbox", { name: "Queue" }).or(dialog.getByLabel("Queue", { exact: true })).first().fill("summarize");
  await dialog.getByLabel("Daily limit").fill("20");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("table", { name: "Budgets" }).getByRole("row").filter({ hasText: "summarize" })).toContainText("$20.00");
  await page.getByRole("button", { name: "Delete budget for summarize" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No budgets")).toBeVisible();
});

test("a viewer sees all of it and may change none", async ({ owner: page, service, demo, mail }) => {
  const id = await demo.enqueue("looked.at", {});
  await demo.call("POST", `/api/v1/jobs/${id}/hold`, { reason: "only look" });
  await page.goto(`${service.url}/demo/settings/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email").fill("looker@example.com");
  await expect(page.getByRole("checkbox", { name: "Viewer" })).toBeChecked();
  await page.getByRole("button", { name: "Send invitation" }).click();
  const other = await otherPerson(page);
  await other.page.goto(MailServer.link(await mail.next("looker@example.com", /join/i)));
  await other.page.getByRole("button", { name: /join|accept/i }).click();
  await expect(other.page.getByRole("navigation").first()).toBeVisible();
  await other.page.goto(`${service.url}/demo/default/approvals`);
  await expect(other.page.getByText("only look")).toBeVisible();
  await expect(other.page.getByRole("button", { name: `Approve ${id}` })).toHaveAttribute("aria-disabled", "true");

  // What moves and requeues is there and says why not, and the API refuses it.
  await demo.fail(await buried(demo, "looked.at.dead"), "for the looker");
  for (const [path, names] of [
    [`jobs/${id}`, ["Delete", "Move"]],
    ["dead?queue=looked.at.dead", [/^Retry job_/, /^Retry all/]],
    [`dead?group=${(await countedDead(demo, "looked.at.dead", 1))[0]?.id}`, ["Retry 1", "Move 1", "Delete 1"]],
    ["queues", ["Pause looked.at.dead", "Retry dead jobs in looked.at.dead"]],
  ] as const) {
    await other.page.goto(`${service.url}/demo/default/${path}`);
    for (const name of names)
      await expect(other.page.getByRole("button", { name }).first()).toHaveAttribute("aria-disabled", "true");
  }
  for (const [path, body] of [
    [`jobs/${id}/move`, { queue: "elsewhere" }],
    ["queues/looked.at.dead/clear", {}],
    ["queues/looked.at.dead/requeue", {}],
    ["jobs/bulk", { action: "delete", filter: { queue: "looked.at.dead" } }],
    [`jobs/${id}/replay`, { from: 1 }],
  ] as const)
    expect(await asSomebodyIn(other.page, path, body), path).toBe(403);
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
  await page.getByLabel("Group by").selectOption({ label: "by model" });
  await expect(page).toHaveURL(/by=model/);
  await expect(page.getByRole("row").filter({ hasText: "large" })).toContainText("$1.25");
});
