// Every page of the console in every state that looks different, as data: for the
// pictures, and for the rules that each page must keep.
import type { Page } from "@playwright/test";
import { MailServer } from "../rig/mail.ts";
import type { IdentityProvider } from "../rig/oidc.ts";
import { Control, type Seed, signUpLink, tokenOf } from "../rig/seed.ts";
import type { Service } from "../rig/service.ts";

/** Stage is what views are shown with. */
export interface Stage {
  service: Service;
  mail: MailServer;
  provider: IdentityProvider;
  seed: Seed;
}

export type Who = "nobody" | "owner" | "viewer" | "barred" | "colleague" | "operator";

export interface View {
  name: string;
  as: Who;
  /** A path of the console, or a whole one-time link. */
  path: string | ((stage: Stage) => string | Promise<string>);
  /** What is visible once the view is complete. */
  shows: string | RegExp;
  /** What a person does on the page to get there. */
  act?: (page: Page, stage: Stage) => Promise<void>;
  /** The view is about a call that is refused. */
  refused?: boolean;
  /** One screen shows it: something is over the page, or rows load by scrolling. */
  screenful?: boolean;
}

const busy = "/acme/production";
const job =
  (state: keyof Seed["jobs"], tab = "") =>
  ({ seed }: Stage) =>
    `${busy}/jobs/${seed.jobs[state]}${tab}`;
const work =
  (page: string, name: keyof Seed["work"]) =>
  ({ seed }: Stage) =>
    `${busy}/${page}/${seed.work[name]}`;
const click = (name: string | RegExp) => (page: Page) => page.getByRole("button", { name }).first().click();
const press = (keys: string) => async (page: Page) => {
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.keyboard.press(keys);
};

// One-time links serve one visit, and a name one tenant.
let newcomers = 0;

async function newcomer({ service, mail }: Stage): Promise<string> {
  const name = `newcomer-${++newcomers}`;
  return await signUpLink(service, mail, `${name}@example.com`, name);
}

async function invitation({ mail, seed }: Stage): Promise<string> {
  const email = `guest-${++newcomers}@example.com`;
  await seed.control.call("MemberService/CreateInvitation", { tenant: seed.tenant, email, roles: ["viewer"] });
  return MailServer.link(await mail.next(email, /join/i));
}

/** An address that has an account, but none in the inviting tenant. */
async function invitationOfAnAccount(stage: Stage): Promise<string> {
  const { service, mail, seed } = stage;
  const name = `settled-${++newcomers}`;
  const token = tokenOf(await signUpLink(service, mail, `${name}@example.com`, name));
  await new Control(service.url).call("SignupService/Confirm", { token });
  await seed.control.call("MemberService/CreateInvitation", { tenant: seed.tenant, email: `${name}@example.com`, roles: ["viewer"] });
  return MailServer.link(await mail.next(`${name}@example.com`, /join/i));
}

/** A sign-in link that no browser asked for. */
async function linkOfElsewhere({ service, mail, seed }: Stage): Promise<string> {
  const before = await mail.count();
  await new Control(service.url).call("AuthService/StartLogin", { email: seed.owner });
  return MailServer.link(await mail.next(seed.owner, /sign.in/i, before));
}

/** The dead jobs of the most frequent error. */
async function deadGroup({ seed }: Stage): Promise<string> {
  const { body } = await seed.production.call("GET", "/api/v1/dead/groups?limit=1");
  return `${busy}/dead?group=${(body as { groups: { id: string }[] }).groups[0]?.id}`;
}

const keyPage =
  (name: string, search = "") =>
  async ({ seed }: Stage) => {
    const { apiKeys } = await seed.control.call<{ apiKeys: { id: string; name: string }[] }>("ApiKeyService/ListApiKeys", { tenant: seed.tenant });
    return `${busy}/keys/${apiKeys.find((key) => key.name === name)?.id}${search}`;
  };

async function newKey(page: Page): Promise<void> {
  await page.getByRole("button", { name: "New key" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("image workers");
}

async function limitKey(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Edit on-call tooling" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Can do").selectOption({ label: "Only chosen permissions" });
  await dialog.getByRole("button", { name: "Choose all: Queues" }).click();
  await dialog.getByRole("checkbox", { name: "job.retry" }).check();
  await dialog.getByPlaceholder("Find a permission").scrollIntoViewIfNeeded();
}

async function useTrust(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Trusts of shop backend" }).click();
  await page.getByRole("button", { name: "How to use deploy" }).click();
}

async function editTrust(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Trusts of shop backend" }).click();
  await page.getByRole("button", { name: "Edit nightly" }).click();
}

async function newTrust(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Trusts of old importer" }).click();
  await page.getByRole("button", { name: "New trust" }).click();
  await page.getByText("Limits of its keys").click();
}

/** A change of a role that somebody has. */
async function editRole(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Edit night shift" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("checkbox", { name: "job.cancel" }).check();
  await dialog.getByRole("checkbox", { name: "queue.pause" }).uncheck();
}

async function idOf({ seed }: Stage, email: string): Promise<string> {
  const { members } = await seed.control.call<{ members: { userId: string; email: string }[] }>("MemberService/ListMembers", { tenant: seed.tenant });
  return members.find((member) => member.email === email)?.userId ?? "";
}

const explained = async (stage: Stage) =>
  `/acme/settings/access?tab=explain&what=job.retry&namespace=production&who=${await idOf(stage, "grace@acme.example")}`;
const tested = async (stage: Stage) =>
  `/acme/settings/access?tab=test&namespace=production&queue=emails.send&who=${await idOf(stage, "barbara.liskov.platform-engineering@acme.example")}`;

/** Of a round before: pictures are taken at a desk, then on a phone. */
async function discardStaged(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Delete" }).waitFor();
  const discard = page.getByRole("button", { name: "Discard changes" });
  if (await discard.isVisible()) await discard.click();
}

/** A new secret of a connection that is on: it stays beside the one in use. */
async function stageSecret(page: Page): Promise<void> {
  await page.getByLabel("Client secret").fill("another-secret-of-the-identity-provider");
  await page.getByRole("button", { name: "Save changes" }).click();
}

async function chooseOkta(page: Page): Promise<void> {
  await page.getByLabel("Directory", { exact: true }).selectOption({ label: "Okta" });
}

/** With the token of the seed alone: others are of a round before. */
async function oneToken(page: Page, { seed }: Stage): Promise<void> {
  const { tenant, control } = seed;
  const { connections } = await control.call<{ connections: { id: string }[] }>("SsoService/ListSsoConnections", { tenant });
  const connectionId = connections[0]?.id;
  const { tokens } = await control.call<{ tokens: { id: string }[] }>("DirectoryService/ListScimTokens", { tenant, connectionId });
  for (const { id } of tokens.slice(1)) await control.call("DirectoryService/RevokeScimToken", { tenant, tokenId: id });
  if (tokens.length > 1) await page.reload();
}

async function newToken(page: Page, stage: Stage): Promise<void> {
  await oneToken(page, stage);
  await page.getByRole("button", { name: "New token" }).click();
}

async function tokenSecret(page: Page, stage: Stage): Promise<void> {
  await newToken(page, stage);
  await page.getByRole("button", { name: "Create token" }).click();
}

async function revokeToken(page: Page, stage: Stage): Promise<void> {
  await oneToken(page, stage);
  await page.getByRole("button", { name: /^Revoke corvo_scim_/ }).first().click();
}

async function newSchedule(page: Page): Promise<void> {
  await page.getByRole("button", { name: "New schedule" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("weekday-digest");
  await dialog.getByLabel("Queue").fill("digest.send");
  await dialog.getByLabel("Time zone").fill("Europe/Berlin");
  await dialog.getByLabel("Cron expression").fill("0 7 * * 1-5");
  await dialog.getByRole("list", { name: "Next runs" }).waitFor();
}

async function openDrain(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Edit payments.capture" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
}

async function openClear(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Edit webhooks.deliver" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Clear" }).click();
}

const cloud = "**/corvo.cloud.v1.";

/**
 * A subscription that the service brings about within weeks only, or for a whole tenant, whose other pictures would show it too. The banners of
 * an unpaid invoice and of a limit that is reached are real in journeys/9-payments.spec.ts.
 */
const standingAs = (state: string, limits: object[] = []) => async (page: Page) => {
  await page.route(`${cloud}PlanService/GetSubscription*`, async (route) => {
    const answer = (await (await route.fetch()).json()) as { subscription: object; limits: object[] };
    const subscription = { ...answer.subscription, state, stateUntil: new Date(Date.UTC(2027, 0, 15)).toISOString() };
    await route.fulfill({ json: { subscription, limits: [...limits, ...answer.limits] } });
  });
  await page.reload();
};

const allJobsUsed = { name: "jobs_per_month_max", title: "Jobs in a month", unit: "jobs", used: "1000000", max: "1000000", holds: "dispatch", resetsAt: new Date(Date.UTC(2027, 0, 1)).toISOString() };

/** A whole month of two namespaces: no service is a month old. Real hours are shown by corvo usage show in services/e2e/clocks. */
async function monthOfUsage(page: Page): Promise<void> {
  const counts = (jobs: number) => ({
    jobsEnqueued: String(jobs),
    executions: String(Math.round(jobs * 1.2)),
    payloadBytes: String(jobs * 2_300),
    storedByteHours: String(jobs * 400_000),
    egressBytes: String(jobs * 800),
    streamsPeak: String(3 + (jobs % 5)),
  });
  await page.route(`${cloud}UsageService/GetUsage*`, async (route) => {
    const message = route.request().method() === "GET" ? new URL(route.request().url()).searchParams.get("message") : route.request().postData();
    const { from, byNamespace } = JSON.parse(message ?? "{}") as { from: string; byNamespace?: boolean };
    const month = new Date(from);
    const days = new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 0)).getUTCDate();
    const jobs = (n: number) => 12_000 + 5_000 * Math.round(2 * Math.sin(n)) + (n % 7 > 4 ? -6_000 : 9_000);
    const point = (n: number, share: number, more: object) => ({ start: new Date(month.getTime() + n * 86_400_000).toISOString(), closed: true, counts: counts(Math.round(jobs(n) * share)), ...more });
    const points = Array.from({ length: days }, (_, n) =>
      byNamespace
        ? [point(n, 0.8, { namespaceId: "ns_1", namespace: "production" }), point(n, 0.2, { namespaceId: "ns_2", namespace: "staging" })]
        : [point(n, 1, {})],
    );
    await route.fulfill({ json: { points: points.flat(), total: counts(500_000), closedTo: month.toISOString() } });
  });
  await page.route(`${cloud}UsageService/PreviewInvoice*`, (route) =>
    route.fulfill({ json: { invoice: { currency: "usd", total: "4950", lines: [{ item: "base", amount: "4950" }], state: "final" } } }),
  );
  await page.reload();
}

/** A worker that is silent for two minutes is not listed, so all of them fetch once more. */
async function workers({ seed }: Stage): Promise<string> {
  await seed.askForJobs();
  return `${busy}/workers`;
}

/** A plan with another price, and what that changes. */
async function changeOfPlan(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Make new version" }).click();
  await page.getByLabel("A month", { exact: true }).fill("5900");
  await page.getByRole("button", { name: "Preview changes" }).click();
}

/** By the page's name in src/pages.ts; npm test holds that none is missing. */
export const viewsOf: Readonly<Record<string, readonly View[]>> = {
  signup: [
    { name: "signup", as: "nobody", path: "/signup", shows: "Create your account" },
    {
      name: "signup-filled",
      as: "nobody",
      path: "/signup",
      shows: /\/t\/initrode/,
      act: (page) => page.getByLabel("Work email").fill("bill@initrode.example"),
    },
    {
      name: "signup-name-taken",
      as: "nobody",
      path: "/signup",
      shows: /taken/i,
      act: async (page) => {
        await page.getByLabel("Work email").fill("bill@example.com");
        await page.getByLabel("Tenant name").fill("acme");
      },
    },
    {
      name: "signup-mail-sent",
      as: "nobody",
      path: "/signup",
      shows: "Check your email",
      act: async (page) => {
        const name = `asker-${++newcomers}`;
        await page.getByLabel("Work email").fill(`${name}@example.com`);
        await page.getByLabel("Tenant name").fill(name);
        await page.getByRole("button", { name: "Continue" }).click();
      },
    },
  ],
  signupConfirm: [
    { name: "signup-confirm", as: "nobody", path: newcomer, shows: "wasn't started in this browser", refused: true },
    { name: "signup-confirm-keys", as: "nobody", path: newcomer, shows: "Management key", act: click(/^Create newcomer-/), refused: true },
    {
      name: "signup-link-broken",
      as: "nobody",
      path: "/signup/confirm#token=nonsense",
      shows: "This link isn't valid",
      refused: true,
    },
  ],
  signin: [
    { name: "signin", as: "nobody", path: "/signin", shows: "your company's single sign-on", refused: true },
    {
      name: "signin-mail-sent",
      as: "nobody",
      path: "/signin",
      shows: "Check your email",
      act: async (page) => {
        await page.getByLabel("Email").fill("nobody-in-particular@example.com");
        await page.getByRole("button", { name: "Continue", exact: true }).click();
      },
    },
    { name: "signin-sso", as: "nobody", path: "/signin?tenant=acme", shows: "Sign in with email instead" },
    {
      name: "signin-session-ended",
      as: "nobody",
      path: "/signin?tenant=acme&problem=session_ended",
      shows: "Your session has ended",
    },
  ],
  signinConfirm: [
    {
      name: "signin-link-broken",
      as: "nobody",
      path: "/signin/confirm#token=nonsense",
      shows: "This link isn't valid",
      refused: true,
    },
    {
      name: "signin-link-of-elsewhere",
      as: "nobody",
      path: linkOfElsewhere,
      shows: "wasn't requested in this browser",
    },
  ],
  signinVerify: [
    { name: "signin-verify-nobody", as: "nobody", path: "/signin/verify", shows: "Confirm it's you", refused: true },
  ],
  device: [{ name: "device", as: "owner", path: "/device", shows: "Enter the code that your terminal shows" }],
  invite: [
    { name: "invite", as: "nobody", path: invitation, shows: "Join acme", refused: true },
    { name: "invite-has-account", as: "nobody", path: invitationOfAnAccount, shows: "already has an account", refused: true },
  ],
  overview: [
    { name: "overview-first-steps", as: "owner", path: "/globex/default", shows: "Waiting for your first request" },
    { name: "overview", as: "owner", path: busy, shows: "Latest failures" },
    { name: "viewer-overview", as: "viewer", path: busy, shows: "Latest failures" },
  ],
  queues: [
    { name: "queues-empty", as: "owner", path: "/globex/default/queues", shows: "No queue" },
    { name: "queues", as: "owner", path: `${busy}/queues`, shows: "webhooks.deliver" },
    { name: "queues-settings", as: "owner", path: `${busy}/queues`, shows: /Edit|at once/, act: click("Edit payments.capture"), screenful: true },
    { name: "queues-drain", as: "owner", path: `${busy}/queues`, shows: "stops accepting new jobs", act: openDrain, screenful: true },
    { name: "queues-throughput", as: "owner", path: `${busy}/queues`, shows: "Newest first", act: (page) => page.getByText("View as table").click(), screenful: true },
    { name: "queues-clear", as: "owner", path: `${busy}/queues`, shows: "Clear queue", act: openClear, screenful: true },
    {
      name: "queues-requeue",
      as: "owner",
      path: `${busy}/queues`,
      shows: "Retry 3 dead jobs",
      act: click("Retry dead jobs in webhooks.deliver"),
      screenful: true,
    },
    { name: "viewer-queues", as: "viewer", path: `${busy}/queues`, shows: "webhooks.deliver" },
  ],
  jobs: [
    { name: "jobs-empty", as: "owner", path: "/globex/default/jobs", shows: "No job" },
    { name: "jobs", as: "owner", path: `${busy}/jobs`, shows: "emails.send", screenful: true },
    { name: "jobs-filtered", as: "owner", path: `${busy}/jobs?state=dead%2Cretrying&queue=webhooks.deliver`, shows: "webhooks.deliver", screenful: true },
    { name: "jobs-no-match", as: "owner", path: `${busy}/jobs?state=dead&queue=emails.send`, shows: "No matching jobs" },
    { name: "viewer-jobs", as: "viewer", path: `${busy}/jobs`, shows: "emails.send", screenful: true },
  ],
  job: [
    { name: "job-pending", as: "owner", path: job("pending"), shows: "Enqueued" },
    { name: "job-active", as: "owner", path: job("active"), shows: "resizer-2" },
    { name: "job-completed", as: "owner", path: job("completed"), shows: "Completed" },
    { name: "job-completed-payload", as: "owner", path: job("completed", "?tab=payload"), shows: "9007199254740993" },
    { name: "job-completed-result", as: "owner", path: job("completed", "?tab=result"), shows: "48213" },
    { name: "job-dead", as: "owner", path: job("dead"), shows: "TemplateError" },
    { name: "job-dead-errors", as: "owner", path: job("dead", "?tab=errors"), shows: "templates/engine.ts" },
    { name: "job-retrying", as: "owner", path: job("retrying"), shows: "503 Service Unavailable" },
    { name: "job-scheduled", as: "owner", path: job("scheduled"), shows: "Scheduled for" },
    { name: "job-cancelled", as: "owner", path: job("cancelled"), shows: "Cancelled" },
    { name: "job-delete", as: "owner", path: job("dead"), shows: "Delete this job?", act: click("Delete"), screenful: true },
    {
      name: "job-not-found",
      as: "owner",
      path: `${busy}/jobs/job_00000000000000000000000000`,
      shows: "Job not found",
      refused: true,
    },
    { name: "job-held", as: "owner", path: job("held"), shows: "returned parcels" },
    { name: "job-hold", as: "owner", path: job("pending"), shows: "Hold this job?", act: click("Hold"), screenful: true },
    { name: "job-move", as: "owner", path: job("dead"), shows: "Move this job?", act: click("Move"), screenful: true },
    { name: "job-agent", as: "owner", path: job("agent"), shows: "4 of 6" },
    { name: "job-agent-iterations", as: "owner", path: job("agent", "?tab=iterations"), shows: "Continued", act: (page) => page.locator("summary").last().click() },
    { name: "job-agent-replay", as: "owner", path: job("agent", "?tab=iterations"), shows: "Replay job", act: click("Replay from iteration 2"), screenful: true },
    { name: "job-blocked", as: "owner", path: job("blocked"), shows: "Dependencies" },
    { name: "job-chained", as: "owner", path: job("chained"), shows: "Chain" },
    { name: "viewer-job", as: "viewer", path: job("dead"), shows: "TemplateError" },
    { name: "viewer-job-agent", as: "viewer", path: job("agent", "?tab=iterations"), shows: "Continued" },
  ],
  workers: [
    { name: "workers-empty", as: "owner", path: "/globex/default/workers", shows: "No workers connected" },
    { name: "workers", as: "owner", path: workers, shows: "resizer-2.fra.acme.example" },
    { name: "viewer-workers", as: "viewer", path: workers, shows: "resizer-2.fra.acme.example" },
  ],
  schedules: [
    { name: "schedules-empty", as: "owner", path: "/globex/default/schedules", shows: "No schedules yet" },
    { name: "schedules", as: "owner", path: `${busy}/schedules`, shows: "nightly-report" },
    { name: "schedules-new", as: "owner", path: `${busy}/schedules`, shows: "Monday through Friday", act: newSchedule, screenful: true },
    { name: "viewer-schedules", as: "viewer", path: `${busy}/schedules`, shows: "nightly-report" },
  ],
  schedule: [
    { name: "schedule", as: "owner", path: work("schedules", "schedule"), shows: "Next runs" },
  ],
  batches: [
    { name: "batches-empty", as: "owner", path: "/globex/default/batches", shows: "No batches yet" },
    { name: "batches", as: "owner", path: `${busy}/batches`, shows: "albums.ready" },
  ],
  batch: [
    { name: "batch", as: "owner", path: work("batches", "batch"), shows: "8 of 12 jobs finished" },
    { name: "batch-open", as: "owner", path: work("batches", "openBatch"), shows: "Add jobs to this batch" },
    { name: "viewer-batch", as: "viewer", path: work("batches", "openBatch"), shows: "Add jobs to this batch" },
  ],
  chains: [
    { name: "chains-empty", as: "owner", path: "/globex/default/chains", shows: "No chains yet" },
    { name: "chains", as: "owner", path: `${busy}/chains`, shows: /steps completed/ },
  ],
  chain: [
    { name: "chain", as: "owner", path: work("chains", "chain"), shows: "On step 2 of 3." },
    { name: "chain-failed", as: "owner", path: work("chains", "failedChain"), shows: "Step 2 is dead." },
    { name: "viewer-chain", as: "viewer", path: work("chains", "chain"), shows: "On step 2 of 3." },
  ],
  dead: [
    { name: "dead-empty", as: "owner", path: "/globex/default/dead", shows: "No dead jobs" },
    { name: "dead", as: "owner", path: `${busy}/dead`, shows: "TemplateError" },
    { name: "dead-of-queue", as: "owner", path: `${busy}/dead?queue=webhooks.deliver`, shows: "401 Unauthorized" },
    { name: "dead-requeue", as: "owner", path: `${busy}/dead?queue=webhooks.deliver`, shows: "Retry 3 dead jobs", act: click("Retry all 3"), screenful: true },
    { name: "dead-group", as: "owner", path: deadGroup, shows: /Retry \d/ },
    { name: "dead-group-retry", as: "owner", path: deadGroup, shows: "Each job starts over", act: click(/^Retry \d/), screenful: true },
    { name: "dead-group-move", as: "owner", path: deadGroup, shows: "in the other queue", act: click(/^Move \d/), screenful: true },
    { name: "dead-group-delete", as: "owner", path: deadGroup, shows: "can't be undone", act: click(/^Delete \d/), screenful: true },
    { name: "dead-group-gone", as: "owner", path: `${busy}/dead?group=0000000000000001`, shows: "No dead jobs with this error" },
    { name: "viewer-dead-group", as: "viewer", path: deadGroup, shows: /Retry \d/ },
    { name: "viewer-dead", as: "viewer", path: `${busy}/dead`, shows: "TemplateError" },
  ],
  approvals: [
    { name: "approvals-empty", as: "owner", path: "/globex/default/approvals", shows: "No approvals waiting" },
    { name: "approvals", as: "owner", path: `${busy}/approvals`, shows: "The second refund" },
    { name: "approvals-reject", as: "owner", path: `${busy}/approvals`, shows: "Reject this job?", act: click(/^Reject job_/), screenful: true },
    { name: "approvals-policies", as: "owner", path: `${busy}/approvals?tab=policies`, shows: "payouts" },
    { name: "approvals-policy", as: "owner", path: `${busy}/approvals?tab=policies`, shows: "New approval policy", act: click("New policy"), screenful: true },
    { name: "viewer-approvals", as: "viewer", path: `${busy}/approvals`, shows: "The second refund" },
  ],
  usage: [
    { name: "usage-empty", as: "owner", path: "/globex/default/usage", shows: "No usage yet" },
    { name: "usage", as: "owner", path: `${busy}/usage`, shows: "reviews.summarize" },
    { name: "usage-by-model", as: "owner", path: `${busy}/usage?by=model&period=7d`, shows: "claude-haiku" },
    { name: "usage-budget", as: "owner", path: `${busy}/usage`, shows: "When the limit is reached", act: click("New budget"), screenful: true },
    { name: "viewer-usage", as: "viewer", path: `${busy}/usage`, shows: "reviews.summarize" },
  ],
  keys: [
    { name: "keys-empty", as: "owner", path: "/globex/default/keys", shows: /No API key|No key/ },
    { name: "keys", as: "owner", path: `${busy}/keys`, shows: "on-call tooling" },
    { name: "keys-create", as: "owner", path: `${busy}/keys`, shows: "Create key", act: newKey, screenful: true },
    {
      name: "keys-secret",
      as: "owner",
      path: "/initech/default/keys",
      shows: "I saved this key",
      act: async (page) => {
        await newKey(page);
        await page.getByRole("button", { name: "Create key" }).click();
      },
      screenful: true,
    },
    { name: "keys-edit", as: "owner", path: `${busy}/keys`, shows: "Expires after", act: click("Edit on-call tooling"), screenful: true },
    { name: "keys-limits", as: "owner", path: `${busy}/keys`, shows: /\d+ chosen/, act: limitKey, screenful: true },
    { name: "keys-rotate", as: "owner", path: `${busy}/keys`, shows: "Rotate secret", act: click("Rotate on-call tooling"), screenful: true },
    { name: "keys-revoke", as: "owner", path: `${busy}/keys`, shows: "Revoke on-call tooling?", act: click("Revoke on-call tooling"), screenful: true },
    { name: "viewer-keys", as: "viewer", path: `${busy}/keys`, shows: /can't see API keys/i },
  ],
  key: [
    { name: "key", as: "owner", path: keyPage("on-call tooling"), shows: "API key created" },
    { name: "key-did", as: "owner", path: keyPage("shop backend", "?tab=did"), shows: /Queue|Job/ },
    { name: "key-rotate", as: "owner", path: keyPage("on-call tooling"), shows: "Rotate secret", act: click("Rotate"), screenful: true },
    { name: "key-not-found", as: "owner", path: `${busy}/keys/key_000000000000`, shows: "API key not found", refused: true },
    { name: "viewer-key", as: "viewer", path: keyPage("on-call tooling"), shows: "You can't view API keys" },
  ],
  namespaces: [
    { name: "namespaces", as: "owner", path: "/acme/settings/namespaces", shows: "sandbox" },
    { name: "namespaces-create", as: "owner", path: "/acme/settings/namespaces", shows: "Create", act: click("New namespace"), screenful: true },
    { name: "namespaces-retention", as: "owner", path: "/acme/settings/namespaces", shows: /deleted 7 d after they end/, act: click("Retention of sandbox"), screenful: true },
    { name: "namespaces-delete", as: "owner", path: "/acme/settings/namespaces", shows: "Delete namespace", act: click("Delete sandbox"), screenful: true },
    { name: "viewer-namespaces", as: "viewer", path: "/acme/settings/namespaces", shows: "sandbox" },
  ],
  members: [
    { name: "members", as: "owner", path: "/acme/settings/members", shows: "katherine@acme.example" },
    { name: "members-alone", as: "owner", path: "/globex/settings/members", shows: "ada@acme.example" },
    { name: "members-invite", as: "owner", path: "/acme/settings/members", shows: "Send invitation", act: click("Invite"), screenful: true },
    { name: "members-remove", as: "owner", path: "/acme/settings/members", shows: "Remove linus@acme.example?", act: click("Remove linus@acme.example"), screenful: true },
    {
      name: "members-roles",
      as: "owner",
      path: "/acme/settings/members",
      shows: "Save roles",
      act: click("Change roles of linus@acme.example"),
      screenful: true,
    },
    { name: "members-access", as: "owner", path: "/acme/settings/members", shows: "Give a role", act: click("Access of linus@acme.example"), screenful: true },
    { name: "viewer-members", as: "viewer", path: "/acme/settings/members", shows: "grace@acme.example" },
  ],
  serviceAccounts: [
    { name: "service-accounts-empty", as: "owner", path: "/globex/settings/service-accounts", shows: /service account/i },
    { name: "service-accounts", as: "owner", path: "/acme/settings/service-accounts", shows: "old importer" },
    { name: "service-accounts-new", as: "owner", path: "/acme/settings/service-accounts", shows: "Everything but deleting", act: click("New service account"), screenful: true },
    { name: "service-accounts-keys", as: "owner", path: "/acme/settings/service-accounts", shows: "Keys of shop backend", act: click("Keys of shop backend"), screenful: true },
    { name: "service-accounts-trusts", as: "owner", path: "/acme/settings/service-accounts", shows: "refs/heads/main", act: click("Trusts of shop backend"), screenful: true },
    { name: "service-accounts-trusts-none", as: "owner", path: "/acme/settings/service-accounts", shows: "no trusts", act: click("Trusts of old importer"), screenful: true },
    { name: "service-accounts-trust-use", as: "owner", path: "/acme/settings/service-accounts", shows: "id-token: write", act: useTrust, screenful: true },
    { name: "service-accounts-trust-new", as: "owner", path: "/acme/settings/service-accounts", shows: "Works from these addresses only", act: newTrust, screenful: true },
    { name: "service-accounts-trust-edit", as: "owner", path: "/acme/settings/service-accounts", shows: "Save trust", act: editTrust, screenful: true },
    { name: "service-accounts-access", as: "owner", path: "/acme/settings/service-accounts", shows: "in production", act: click("Access of shop backend"), screenful: true },
    { name: "service-accounts-delete", as: "owner", path: "/acme/settings/service-accounts", shows: "Delete and revoke keys", act: click("Delete shop backend"), screenful: true },
    { name: "viewer-service-accounts", as: "viewer", path: "/acme/settings/service-accounts", shows: /can't see service accounts/i },
  ],
  groups: [
    { name: "groups-empty", as: "owner", path: "/globex/settings/groups", shows: "No groups yet" },
    { name: "groups", as: "owner", path: "/acme/settings/groups", shows: "On call" },
    { name: "groups-people", as: "owner", path: "/acme/settings/groups", shows: "grace@acme.example", act: click("Members of On call"), screenful: true },
    { name: "groups-access", as: "owner", path: "/acme/settings/groups", shows: "in production", act: click("Access of On call"), screenful: true },
    { name: "viewer-groups", as: "viewer", path: "/acme/settings/groups", shows: /can't see groups/i },
  ],
  roles: [
    { name: "roles", as: "owner", path: "/acme/settings/roles", shows: "night shift" },
    { name: "roles-view", as: "owner", path: "/acme/settings/roles", shows: "Who has it", act: click("What Developer allows"), screenful: true },
    { name: "roles-edit", as: "owner", path: "/acme/settings/roles", shows: "Gained:", act: editRole, screenful: true },
    { name: "viewer-roles", as: "viewer", path: "/acme/settings/roles", shows: /can't see roles/i },
  ],
  access: [
    { name: "access", as: "owner", path: "/acme/settings/access", shows: "grace@acme.example" },
    { name: "access-unused", as: "owner", path: "/acme/settings/access?show=unused", shows: "Everything was used in the last 90 days" },
    { name: "access-who-can", as: "owner", path: "/acme/settings/access?tab=explain&what=job.retry&namespace=production", shows: "By roles" },
    { name: "access-explain", as: "owner", path: explained, shows: "through the group On call" },
    { name: "access-test", as: "owner", path: tested, shows: /of \d+ permissions/ },
    { name: "viewer-access", as: "viewer", path: "/acme/settings/access", shows: /can't review access/i },
  ],
  account: [
    { name: "account", as: "owner", path: "/acme/settings/account", shows: "No second factors yet" },
    { name: "account-app", as: "owner", path: "/acme/settings/account", shows: "No camera?", act: click("Add app"), screenful: true },
  ],
  sso: [
    { name: "sso-empty", as: "owner", path: "/globex/settings/sso", shows: "Client secret" },
    { name: "sso-configured", as: "owner", path: "/initech/settings/sso", shows: "Test sign-in" },
    { name: "sso-tested", as: "owner", path: "/acme/settings/sso", shows: "It works", act: discardStaged },
    { name: "sso-several", as: "owner", path: "/initech/settings/sso", shows: "Contractors" },
    { name: "sso-add", as: "owner", path: "/acme/settings/sso?connection=new", shows: "Protocol" },
    { name: "sso-delete", as: "owner", path: "/acme/settings/sso", shows: "Delete connection", act: click("Delete"), screenful: true },
    { name: "sso-staged", as: "owner", path: "/acme/settings/sso", shows: "Your changes aren't in use yet", act: stageSecret },
    { name: "viewer-sso", as: "viewer", path: "/acme/settings/sso", shows: "You can't view" },
  ],
  domains: [
    { name: "domains-empty", as: "owner", path: "/globex/settings/domains", shows: "No domains yet" },
    { name: "domains", as: "owner", path: "/acme/settings/domains", shows: "Its TXT record is missing" },
    { name: "domains-add", as: "owner", path: "/globex/settings/domains", shows: "TXT record that proves", act: click("Add domain"), screenful: true },
    { name: "viewer-domains", as: "viewer", path: "/acme/settings/domains", shows: "You can't view" },
  ],
  directory: [
    { name: "directory-empty", as: "owner", path: "/globex/settings/directory", shows: "Set up single sign-on first" },
    { name: "directory-off", as: "owner", path: "/initech/settings/directory", shows: "Turn on" },
    { name: "directory", as: "owner", path: "/acme/settings/directory", shows: "Customer support" },
    { name: "directory-okta", as: "owner", path: "/initech/settings/directory", shows: "Push New Users", act: chooseOkta },
    { name: "directory-new-token", as: "owner", path: "/acme/settings/directory", shows: "Your directory sends it", act: newToken, screenful: true },
    { name: "directory-secret", as: "owner", path: "/acme/settings/directory", shows: "I saved this token", act: tokenSecret, screenful: true },
    { name: "directory-revoke", as: "owner", path: "/acme/settings/directory", shows: "last token that works", act: revokeToken, screenful: true },
    { name: "viewer-directory", as: "viewer", path: "/acme/settings/directory", shows: "You can't view" },
  ],
  policy: [
    { name: "policy", as: "owner", path: "/globex/settings/policy", shows: "Before you can require single sign-on" },
    { name: "policy-untried", as: "owner", path: "/initech/settings/policy", shows: "Before you can require single sign-on" },
    { name: "policy-enforced", as: "colleague", path: "/hooli/settings/policy", shows: "codes left" },
    { name: "policy-barred", as: "barred", path: "/hooli/default/queues", shows: "Use a break-glass code", refused: true },
    { name: "policy-break-glass", as: "barred", path: "/hooli/default/queues", shows: "Enter for an hour", act: click("Use a break-glass code"), refused: true },
    { name: "policy-codes", as: "owner", path: "/globex/settings/policy", shows: "Print these codes", act: click(/(Create|Replace) codes/) },
    { name: "viewer-policy", as: "viewer", path: "/acme/settings/policy", shows: "Break-glass codes" },
  ],
  audit: [
    { name: "audit", as: "owner", path: "/acme/settings/audit", shows: "Spend limit changed" },
    { name: "audit-bulk", as: "owner", path: "/acme/settings/audit?action=jobs.change_priority", shows: "24 jobs" },
    { name: "audit-narrowed", as: "owner", path: "/acme/settings/audit?action=invitation.", shows: "Invitation sent" },
    { name: "audit-namespace", as: "owner", path: "/acme/settings/audit?action=queue.&namespace=production", shows: "reports.nightly" },
    { name: "audit-none", as: "owner", path: "/acme/settings/audit?namespace=sandbox", shows: "No matching entries" },
    { name: "audit-sinks", as: "owner", path: "/acme/settings/audit?action=audit_sink.", shows: "SIEM" },
    { name: "audit-sink-new", as: "owner", path: "/globex/settings/audit", shows: "A test event is sent", act: click("New sink"), screenful: true },
    { name: "viewer-audit", as: "viewer", path: "/acme/settings/audit", shows: "You can't view" },
  ],
  plan: [
    { name: "plan", as: "owner", path: "/acme/settings/plan", shows: "had no plan in" },
    { name: "plan-month", as: "owner", path: "/acme/settings/plan?month=last", shows: "staging", act: monthOfUsage },
    { name: "plan-no-usage", as: "owner", path: "/globex/settings/plan?month=last", shows: "No usage in" },
    { name: "plan-gives", as: "owner", path: "/acme/settings/plan", shows: "Directory sync", act: (page) => page.getByText("What the plan gives", { exact: true }).click() },
    { name: "plan-change", as: "owner", path: "/acme/settings/plan", shows: "payments are off", act: click("Change plan"), refused: true, screenful: true },
    { name: "viewer-plan", as: "viewer", path: "/acme/settings/plan", shows: "can't see billing" },
  ],
  billing: [
    { name: "billing", as: "owner", path: "/acme/settings/billing", shows: "of $500.00 spent" },
    { name: "billing-none", as: "owner", path: "/globex/settings/billing", shows: "No invoices yet" },
    { name: "billing-spend-limit", as: "owner", path: "/acme/settings/billing", shows: "When the limit is reached", act: click("Edit spend limit"), screenful: true },
    { name: "viewer-billing", as: "viewer", path: "/acme/settings/billing", shows: "You can't view billing" },
  ],

  operatorTenants: [
    { name: "operator-tenants", as: "operator", path: "/operator?sort=name", shows: "globex" },
    { name: "operator-tenants-none", as: "operator", path: "/operator?search=nobody", shows: "No matching tenants" },
    { name: "operator-refused", as: "owner", path: "/operator", shows: "Page not found" },
  ],
  operatorTenant: [
    { name: "operator-tenant", as: "operator", path: "/operator/tenants/acme", shows: "Last readings" },
    { name: "operator-override", as: "operator", path: "/operator/tenants/acme", shows: "Until the end of", act: click("Set override"), screenful: true },
    { name: "operator-set-plan", as: "operator", path: "/operator/tenants/acme", shows: "The same on the host", act: click("Change plan"), screenful: true },
  ],
  operatorPlans: [{ name: "operator-plans", as: "operator", path: "/operator/plans", shows: "dedicated" }],
  operatorPlan: [
    { name: "operator-plan", as: "operator", path: "/operator/plans/team", shows: "Custom roles" },
    { name: "operator-plan-edit", as: "operator", path: "/operator/plans/team", shows: "Entitlements", act: click("Make new version"), screenful: true },
    { name: "operator-plan-differences", as: "operator", path: "/operator/plans/team", shows: "It is in the operators' log", act: changeOfPlan, screenful: true },
  ],
  reconciliation: [{ name: "operator-reconciliation", as: "operator", path: "/operator/reconciliation", shows: "Payments are off" }],

  // Parts around the pages, and replacements of a page.
  frame: [
    { name: "past-due", as: "owner", path: `${busy}/queues`, shows: "An invoice isn't paid", act: standingAs("past_due") },
    { name: "suspended", as: "viewer", path: `${busy}/queues`, shows: "No job starts because an invoice", act: standingAs("suspended") },
    { name: "all-jobs-used", as: "owner", path: `${busy}/queues`, shows: "No job starts because all", act: standingAs("active", [allJobsUsed]) },
    { name: "palette", as: "owner", path: busy, shows: "Theme: dark", act: press("Control+k"), screenful: true },
    {
      name: "palette-typed",
      as: "owner",
      path: busy,
      shows: "Show jobs in emails",
      act: async (page) => {
        await press("Control+k")(page);
        await page.getByRole("dialog").waitFor();
        await page.keyboard.type("emails");
      },
      screenful: true,
    },
    { name: "shortcuts", as: "owner", path: busy, shows: "Keyboard shortcuts", act: press("?"), screenful: true },
    { name: "copy-as", as: "owner", path: `${busy}/queues`, shows: "Copy as", act: press("."), screenful: true },
    { name: "account-menu", as: "owner", path: busy, shows: "Sign out", act: click(/^Account/), screenful: true },
    { name: "namespace-menu", as: "owner", path: busy, shows: "Manage namespaces", act: click(/Namespace/), screenful: true },
    { name: "not-found", as: "owner", path: "/acme/production/nothing/here", shows: "Page not found" },
    { name: "bad-link", as: "owner", path: "/acme/production/jobs?state=banana", shows: "This link isn't valid" },
    { name: "tenant-not-found", as: "owner", path: "/umbrella/default", shows: "Tenant umbrella not found" },
    {
      name: "namespace-not-found",
      as: "owner",
      path: "/acme/atlantis/jobs",
      shows: "Namespace atlantis not found",
      // The call for a token to its jobs.
      refused: true,
    },
  ],
};

export const views: readonly View[] = Object.values(viewsOf).flat();
