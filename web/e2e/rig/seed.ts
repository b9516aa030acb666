// A busy company and two that have just started, made through the same APIs that
// people and programs use.
import { Directory } from "./directory.ts";
import { createServer } from "node:http";
import type { NameServer } from "./dns.ts";
import { Tenant } from "./jobs.ts";
import { MailServer } from "./mail.ts";
import type { IdentityProvider } from "./oidc.ts";
import { eventually, freePort } from "./process.ts";
import type { Service } from "./service.ts";

/** What the pages are looked at with. */
export interface Seed {
  /** The busy tenant, and the namespace in which its jobs are. */
  tenant: "acme";
  namespace: "production";
  /** A tenant without jobs, and without keys. */
  empty: "globex";
  /** A tenant whose single sign-on is set up and was never tried. */
  untried: "initech";
  /** A tenant that requires single sign-on, once it was tried. */
  enforced: "hooli";
  owner: string;
  viewer: string;
  /** Signs in by email where single sign-on is required. */
  barred: string;
  /** A job in each state that looks different. */
  jobs: Record<"pending" | "active" | "completed" | "dead" | "retrying" | "scheduled" | "cancelled" | "held" | "blocked" | "chained" | "agent", string>;
  /** Things beyond single jobs, by their names below. */
  work: Record<"schedule" | "batch" | "openBatch" | "chain" | "failedChain", string>;
  production: Tenant;
  /** Workers of the busy tenant ask for jobs of queues that have none. */
  askForJobs: () => Promise<void>;
  control: Control;
}

/** Control calls the control API with a management key. */
export class Control {
  constructor(
    private readonly url: string,
    private readonly key?: string,
  ) {}

  async call<T = unknown>(method: string, body: object): Promise<T> {
    const res = await fetch(`${this.url}/corvo.cloud.v1.${method}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}) },
      body: JSON.stringify(body),
    });
    if (!res.ok) throw new Error(`${method}: ${res.status} ${await res.text()}`);
    return (await res.json()) as T;
  }
}

/** What a seed is sown with. */
interface Ground {
  service: Service;
  mail: MailServer;
  provider: IdentityProvider;
  dns: NameServer;
}

/** seed fills a service. It takes some seconds. */
export async function seed({ service, mail, provider, dns }: Ground): Promise<Seed> {
  const owner = "ada@acme.example";
  const viewer = "vera@acme.example";
  const barred = "gavin@hooli.example";
  const token = await signUp(service, mail, owner, "acme");
  const control = new Control(service.url, token);
  for (const name of ["production", "staging", "sandbox"]) await control.call("NamespaceService/CreateNamespace", { tenant: "acme", name });
  await control.call("NamespaceService/UpdateNamespace", {
    tenant: "acme",
    namespace: "production",
    deleteProtection: true,
    updateMask: "deleteProtection",
  });
  const production = await keys(service, control);
  await people(service, mail, control, viewer);
  await rights(control);
  const { work, ...jobs } = await jobsOf(production);
  const connection = await signOn(control, "acme", provider);
  await directoryOf(control, connection);
  await domainsOf(control, connection, dns);
  await trustsOf(control);
  await sinksOf(control);
  await control.call("UsageService/SetSpendLimit", { tenant: "acme", limit: { amount: "50000", action: "hold", alertPercents: [50, 80, 100] } });
  await control.call("BillingService/UpdateBilling", { tenant: "acme", emails: ["invoices@acme.example"] });
  const untried = new Control(service.url, await signUp(service, mail, owner, "initech"));
  await signOn(untried, "initech", provider);
  await signOn(untried, "initech", provider, "developer", "Contractors");
  await emptyTenant(service, mail, owner);
  const strict = new Control(service.url, await signUp(service, mail, owner, "hooli"));
  await signOn(strict, "hooli", provider, "owner");
  await join(service, mail, strict, "hooli", barred);
  return {
    barred,
    enforced: "hooli",
    tenant: "acme", namespace: "production", empty: "globex", untried: "initech", owner, viewer, jobs, work, production, askForJobs: () => askForJobs(production), control };
}

/** signUp makes a tenant, and returns its management key. */
export async function signUp(service: Service, mail: MailServer, email: string, tenant: string): Promise<string> {
  const token = tokenOf(await signUpLink(service, mail, email, tenant));
  return (await new Control(service.url).call<{ token: string }>("SignupService/Confirm", { token })).token;
}

/** signUpLink is the link in the mail to somebody who has asked for a tenant. */
export async function signUpLink(service: Service, mail: MailServer, email: string, tenant: string): Promise<string> {
  const before = await mail.count();
  await new Control(service.url).call("SignupService/Start", { email, tenant });
  return MailServer.link(await mail.next(email, /confirm/i, before));
}

/** tokenOf is what a one-time link carries in its fragment. */
export function tokenOf(link: string): string {
  return new URLSearchParams(new URL(link).hash.slice(1)).get("token") ?? "";
}

async function keys(service: Service, control: Control): Promise<Tenant> {
  const create = (name: string, more: object) =>
    control.call<{ secret: string; apiKey: { id: string } }>("ApiKeyService/CreateApiKey", { tenant: "acme", name, ...more });
  const jobs = (namespaces: string[], ...roles: string[]) => ({
    kind: "KEY_KIND_JOBS",
    namespaces,
    roles,
  });
  const shop = await create("shop backend", jobs(["production"], "producer", "worker"));
  const operator = await create("on-call tooling", jobs(["production"], "operator"));
  await create("staging workers", { ...jobs(["staging"], "worker"), expiresAt: inDays(30) });
  await create("terraform", { kind: "KEY_KIND_MANAGEMENT", roles: ["admin"], expiresAt: inDays(90) });
  const old = await create("first prototype", jobs(["sandbox"], "producer", "worker"));
  await control.call("ApiKeyService/RotateApiKey", { tenant: "acme", keyId: shop.apiKey.id, overlapSeconds: 86_400 });
  await control.call("ApiKeyService/RevokeApiKey", { tenant: "acme", keyId: old.apiKey.id });
  const tenant = new Tenant(`${service.url}/t/acme`, operator.secret);
  await eventually("the key to be known", async () => {
    const { status } = await tenant.call("GET", "/api/v1/queues");
    if (status !== 200) throw new Error(`status ${status}`);
  });
  return tenant;
}

/** join makes somebody a member. */
async function join(service: Service, mail: MailServer, control: Control, tenant: string, email: string, role = "viewer", name = ""): Promise<void> {
  const before = await mail.count();
  await control.call("MemberService/CreateInvitation", { tenant, email, roles: [role] });
  const token = tokenOf(MailServer.link(await mail.next(email, /join/i, before)));
  const { status } = await accept(service, token, name);
  if (status >= 400) throw new Error(`AcceptInvitation: ${status}`);
}

const accept = (service: Service, token: string, name: string) =>
  fetch(`${service.url}/corvo.cloud.v1.MemberService/AcceptInvitation`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token, name }),
  });

async function people(service: Service, mail: MailServer, control: Control, viewer: string): Promise<void> {
  for (const [email, role, name] of [
    ["grace@acme.example", "admin", "Grace Hopper"],
    ["linus@acme.example", "developer", "Linus Pauling"],
    [viewer, "viewer", "Vera Rubin"],
    ["barbara.liskov.platform-engineering@acme.example", "auditor", ""],
  ] as const)
    await join(service, mail, control, "acme", email, role, name);
  for (const [email, role] of [
    ["katherine@acme.example", "developer"],
    ["contractor@partner.example", "viewer"],
  ] as const)
    await control.call("MemberService/CreateInvitation", { tenant: "acme", email, roles: [role] });
}

/** A group, a role of the tenant's own, and roles in single namespaces and queues. */
async function rights(control: Control): Promise<void> {
  const tenant = "acme";
  const { members } = await control.call<{ members: { userId: string; email: string }[] }>("MemberService/ListMembers", { tenant });
  const idOf = (email: string) => members.find((member) => member.email === email)?.userId;
  const { group } = await control.call<{ group: { id: string } }>("GroupService/CreateGroup", { tenant, name: "On call", description: "Whoever has the pager this week" });
  await control.call("GroupService/AddGroupMembers", { tenant, groupId: group.id, userIds: [idOf("grace@acme.example"), idOf("linus@acme.example")] });
  await control.call("RoleService/CreateRole", {
    tenant,
    name: "night shift",
    description: "Retries and pauses, changes nothing else",
    permissions: ["job.read", "job.list", "job.retry", "queue.read", "queue.pause"],
  });
  const give = (principalId: string | undefined, role: string, scope: object) =>
    control.call("RoleService/CreateRoleBinding", { tenant, principalId, role, scope });
  await give(group.id, "night shift", { namespace: "production" });
  await give(idOf("barbara.liskov.platform-engineering@acme.example"), "operator", { namespace: "production", queues: "emails.*" });
  await control.call("ServiceAccountService/CreateServiceAccount", { tenant, name: "old importer", description: "Replaced in spring" });
}

/** signOn sets up single sign-on, and gives the connection's id. */
async function signOn(control: Control, tenant: string, provider: IdentityProvider, engineers = "developer", name = "Acme directory"): Promise<string> {
  const { connection } = await control.call<{ connection: { id: string } }>("SsoService/CreateSsoConnection", {
    tenant,
    name,
    issuer: provider.issuer,
    clientId: provider.clientId,
    clientSecret: provider.clientSecret,
    groupsClaim: "groups",
    groupMappings: [
      { group: "engineering", role: engineers },
      { group: "on-call", role: "admin" },
    ],
    defaultRole: "viewer",
  });
  return connection.id;
}

/** Domains as they look: verified, verified but with its record gone, and never verified. */
async function domainsOf(control: Control, connectionId: string, dns: NameServer): Promise<void> {
  const tenant = "acme";
  const claim = async (name: string) => {
    const { domain } = await control.call<{ domain: { id: string; txtName: string; txtValue: string } }>("DomainService/CreateDomain", { tenant, name, connectionId });
    const verify = () => control.call("DomainService/VerifyDomain", { tenant, domainId: domain.id });
    return { ...domain, verify };
  };
  const verified = await claim("acme.dev");
  const gone = await claim("acme-cloud.dev");
  const pending = await claim("old-brand.dev");
  for (const { txtName, txtValue } of [verified, gone]) dns.set(txtName, txtValue);
  await verified.verify();
  await gone.verify();
  dns.delete(gone.txtName);
  for (const { verify } of [gone, pending]) await verify().catch(() => undefined); // Both are refused.
}

/** CI jobs of a service account. */
async function trustsOf(control: Control): Promise<void> {
  const trust = (name: string, provider: string, conditions: object[], more: object = {}) =>
    control.call("TrustService/CreateTrust", { tenant: "acme", name, serviceAccount: "shop backend", provider, conditions, ...more });
  await trust("deploy", "TRUST_PROVIDER_GITHUB", [
    { claim: "repository", values: ["acme/web"] },
    { claim: "ref", values: ["refs/heads/main", "refs/tags/v*"] },
  ]);
  await trust("nightly", "TRUST_PROVIDER_GITLAB", [{ claim: "project_path", values: ["acme/reports"] }], { queues: ["reports.*"] });
}

/** A sink that nobody listens at, so that it is off. */
async function sinksOf(control: Control): Promise<void> {
  const receiver = createServer((request, response) => request.resume().on("end", () => response.writeHead(204).end()));
  const port = await freePort();
  await new Promise<void>((resolve) => receiver.listen(port, "127.0.0.1", resolve));
  try {
    await control.call("AuditService/CreateAuditSink", {
      tenant: "acme",
      name: "SIEM",
      format: "AUDIT_FORMAT_NATIVE",
      https: { url: `http://127.0.0.1:${port}/audit`, signingSecret: "a-secret-of-the-receiver" },
    });
  } finally {
    receiver.close();
  }
}

/** The company's directory sends people and groups, and once something that is refused. */
async function directoryOf(control: Control, connectionId: string): Promise<void> {
  const tenant = "acme";
  const directory = await Directory.of(control, tenant, connectionId);
  const people = ["rosalind@corp.example", "emmy@corp.example", "alan@corp.example", "hedy@corp.example"];
  const ids = await Promise.all(people.map((name) => directory.user(name)));
  await directory.setActive(ids.pop() ?? "", false);
  await directory.group("Platform engineering", ids);
  await directory.group("Customer support", ids.slice(0, 1));
  await directory.call("POST", "/Groups", { schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"], displayName: "On call" });
  const { groups } = await control.call<{ groups: { id: string; name: string }[] }>("GroupService/ListGroups", { tenant });
  const principalId = groups.find(({ name }) => name === "Platform engineering")?.id;
  await control.call("RoleService/CreateRoleBinding", { tenant, principalId, role: "developer", scope: { namespace: "staging" } });
}

async function emptyTenant(service: Service, mail: MailServer, owner: string): Promise<void> {
  const token = await signUp(service, mail, owner, "globex");
  const control = new Control(service.url, token);
  const { apiKeys } = await control.call<{ apiKeys: { id: string; kind: string }[] }>("ApiKeyService/ListApiKeys", { tenant: "globex" });
  // The key that asks goes last.
  for (const key of apiKeys.sort((a) => (a.kind === "KEY_KIND_MANAGEMENT" ? 1 : -1)))
    await control.call("ApiKeyService/RevokeApiKey", { tenant: "globex", keyId: key.id });
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const once = { max_retries: 1 };

/** Names of a small shop's jobs, each with what it would carry. */
const makes: Record<string, (n: number) => unknown> = {
  "emails.send": (n) => ({ template: "order-shipped", to: `${customers[n % customers.length]}@example.com`, order: 48_100 + n, locale: n % 3 ? "en-GB" : "de-DE" }),
  "images.resize": (n) => ({ source: `s3://acme-uploads/2026/11/${(7919 * n).toString(16)}.jpg`, widths: [320, 640, 1280], format: "avif" }),
  "invoices.render": (n) => ({ invoice: `INV-2026-${String(1042 + n)}`, total: { amount: "9007199254740993", currency: "EUR" }, lines: n + 2 }),
  "payments.capture": (n) => ({ intent: `pi_3Q${(15_485_863 * (n + 1)).toString(36)}`, amount: 4200 + 350 * n, currency: "EUR" }),
  "reports.nightly": (n) => ({ report: ["revenue", "churn", "stock", "latency"][n % 4], day: "2026-11-20" }),
  "refunds.pay": (n) => ({ order: 48_021 + n, amount: { value: 18_900 + 7_350 * n, currency: "EUR" }, reason: ["never arrived", "broken", "too late"][n % 3] }),
  "reviews.summarize": (n) => ({ product: 7_140 + n, reviews: 210 + 17 * n, language: "en" }),
  "search.index": (n) => ({ collection: "products", ids: [n * 3, n * 3 + 1, n * 3 + 2], refresh: false }),
  "webhooks.deliver": (n) => ({ endpoint: `https://hooks.partner-${n % 4}.example/orders`, event: "order.updated", delivery: 90_210 + n }),
};
const customers = ["noor", "mateo", "ingrid", "kwame", "yuki", "olga"];

async function jobsOf(tenant: Tenant): Promise<Seed["jobs"] & Pick<Seed, "work">> {
  const add = async (queue: string, count: number, options: object = {}) => {
    let last = "";
    for (let n = 0; n < count; n++) {
      const tags = { customer: customers[n % customers.length], region: n % 2 ? "eu-west" : "us-east" };
      last = await tenant.enqueue(queue, makes[queue]?.(n), { tags, ...options });
    }
    return last;
  };
  const done = async (queue: string, count: number, result: unknown) => {
    await add(queue, count);
    let last = "";
    for (let n = 0; n < count; n++) {
      const lease = await tenant.fetch(queue);
      await tenant.ack(lease, result);
      last = lease.job_id;
    }
    return last;
  };
  const broken = async (queue: string, error: string, options: object, backtrace?: string) => {
    const id = await add(queue, 1, options);
    const attempts = (options as { max_retries?: number; retry_backoff?: string }).retry_backoff === "none" ? 3 : 1;
    for (let n = 0; n < attempts; n++) {
      const { job_id, lease_token } = await tenant.fetch(queue);
      await tenant.call("POST", `/api/v1/fail/${job_id}`, { lease_token, error, backtrace });
    }
    return id;
  };

  const completed = await done("invoices.render", 9, { pages: 2, bytes: 48_213, url: "s3://acme-invoices/2026/11/INV-2026-1050.pdf" });
  await done("emails.send", 16, { message_id: "<20261121.4f1c@mail.acme.example>" });
  await done("payments.capture", 5, { captured: true });
  const dead = await broken(
    "invoices.render",
    "TemplateError: unknown field 'vat_id' in invoice.html, line 42",
    { retry_backoff: "none", max_retries: 3 },
    "at render (templates/engine.ts:118:11)\nat InvoiceWorker.run (workers/invoice.ts:57:20)\nat async Worker.loop (worker.ts:203:9)",
  );
  for (const status of ["410 Gone", "410 Gone", "401 Unauthorized"])
    await broken("webhooks.deliver", `POST https://hooks.partner-2.example/orders: ${status}`, once);
  const later = { retry_base_delay: "8m", retry_max_delay: "1h" };
  await broken("webhooks.deliver", "POST https://hooks.partner-0.example/orders: connection reset by peer", later);
  const retrying = await broken("webhooks.deliver", "POST https://hooks.partner-1.example/orders: 503 Service Unavailable", later);

  const cancelled = await add("payments.capture", 1);
  await tenant.call("POST", `/api/v1/jobs/${cancelled}/cancel`);
  await add("reports.nightly", 4);
  await tenant.call("POST", "/api/v1/queues/reports.nightly/pause");
  const scheduled = await add("reports.nightly", 3, { scheduled_at: inDays(0.6) });
  const held = await waiting(tenant, add);
  const { chained, ...chains } = await chainsOf(tenant);
  const batches = await batchesOf(tenant);
  const schedule = await schedulesOf(tenant);
  const blocked = await add("invoices.render", 1, { depends_on: [chained, ...(await some(tenant, "exports.write", 2))] });
  await rules(tenant);
  await usage(tenant, add);
  const agent = await agentOf(tenant);
  await add("search.index", 24);
  await urgent(tenant);
  const active = await running(tenant, "images.resize", add);
  const pending = await add("emails.send", 5, { priority: "high" });
  await tenant.call("POST", "/api/v1/queues/payments.capture/concurrency", { max: 5 });
  await listed(tenant, pending);
  return { pending, active, completed, dead, retrying, scheduled, cancelled, held, blocked, chained, agent, work: { schedule, ...batches, ...chains } };
}

async function some(tenant: Tenant, queue: string, count: number, options: object = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await tenant.enqueue(queue, { part: n + 1 }, options));
  return ids;
}

/** chainsOf makes a chain in each state that looks different; the job is one in the middle of a running chain. */
async function chainsOf(tenant: Tenant): Promise<{ chain: string; failedChain: string; chained: string }> {
  const make = async (steps: string[], more: object) => {
    const payload = { video: "s3://acme-video/launch.mov" };
    const { body } = await tenant.call("POST", "/api/v1/enqueue", {
      queue: steps[0],
      payload,
      max_retries: 1,
      chain: { steps: steps.map((queue) => ({ queue, payload: {} })), ...more },
    });
    return (body as { chain_id: string }).chain_id;
  };
  const handlers = { on_failure: { queue: "video.alert" }, on_exit: { queue: "video.publish" } };
  await make(["orders.check", "orders.pack", "orders.ship"], {});
  for (const queue of ["orders.check", "orders.pack", "orders.ship"]) await tenant.run(queue);
  const failedChain = await make(["video.extract", "video.encode", "video.caption"], handlers);
  await tenant.run("video.extract");
  await tenant.fail(await tenant.fetch("video.encode"), "ffmpeg: unknown codec av2");
  const chain = await make(["video.extract", "video.encode", "video.caption"], handlers);
  await tenant.run("video.extract");
  const { body } = await tenant.call("POST", "/api/v1/fetch", { queues: ["video.encode"], worker_id: "encoder-1", lease: 3600, wait: 5 });
  const chained = (body as { job_id: string }).job_id;
  await make(["exports.plan", "exports.read", "exports.join", "exports.zip", "exports.sign", "exports.send", "exports.tell"], {});
  return { chain, failedChain, chained };
}

/** batchesOf makes a finished batch, one that runs, and one that takes more jobs. */
async function batchesOf(tenant: Tenant): Promise<{ batch: string; openBatch: string }> {
  const make = async (queue: string, count: number, batch: object) => {
    const jobs = Array.from({ length: count }, (_, n) => ({ queue, payload: { image: n + 1 }, max_retries: 1 }));
    return ((await tenant.call("POST", "/api/v1/enqueue/batch", { jobs, batch })).body as { batch_id: string }).batch_id;
  };
  await make("albums.import", 3, { callback_queue: "albums.ready" });
  for (let n = 0; n < 3; n++) await tenant.run("albums.import");
  const batch = await make("photos.resize", 12, { callback_queue: "albums.ready", callback_payload: { album: 7 } });
  for (let n = 0; n < 6; n++) await tenant.run("photos.resize");
  for (let n = 0; n < 2; n++) await tenant.fail(await tenant.fetch("photos.resize"), "not a picture");
  const openBatch = await make("newsletter.send", 4, { callback_queue: "newsletter.done", open: true });
  return { batch, openBatch };
}

/** rules say which jobs wait for a person, and what models may cost. */
async function rules(tenant: Tenant): Promise<void> {
  await tenant.call("POST", "/api/v1/approval-policies", { name: "payouts", mode: "all", enabled: true, queue: "payouts.send", expires_after: "24h" });
  await tenant.call("POST", "/api/v1/approval-policies", { name: "new customers", mode: "any", enabled: true, queue: "credit.raise", tag_key: "plan", tag_value: "new" });
  await tenant.call("POST", "/api/v1/budgets", { scope: "global", target: "*", daily_usd: 25, on_exceed: "alert_only" });
  await tenant.call("POST", "/api/v1/budgets", { scope: "queue", target: "reviews.summarize", daily_usd: 2.8, per_job_usd: 1.5, on_exceed: "hold" });
}

async function schedulesOf(tenant: Tenant): Promise<string> {
  const make = async (name: string, cron: string, queue: string, more: object = {}) =>
    ((await tenant.call("POST", "/api/v1/schedules", { name, cron, queue, timezone: "Europe/Berlin", ...more })).body as { id: string }).id;
  await make("stock-sync", "*/15 * * * *", "stock.sync", { timezone: "UTC", overlap: "skip" });
  await make("monthly-invoices", "0 9 1 * *", "invoices.render", { payload: { kind: "monthly" } });
  const paused = await make("reindex", "@weekly", "search.index");
  await tenant.call("POST", `/api/v1/schedules/${paused}/pause`);
  return await make("nightly-report", "30 2 * * 1-5", "reports.nightly", {
    payload: { report: "revenue", account: 7 },
    jitter: "30s",
    tags: { team: "finance" },
  });
}

type Add = (queue: string, count: number, options?: object) => Promise<string>;

/** waiting holds three jobs for a person. */
async function waiting(tenant: Tenant, add: Add): Promise<string> {
  let last = "";
  for (const reason of ["Above 180 €: look at the order first", "The second refund of this customer in a week", "The address is on the list of returned parcels"]) {
    last = await add("refunds.pay", 1);
    await tenant.call("POST", `/api/v1/jobs/${last}/hold`, { reason });
  }
  return last;
}

/** usage lets workers report what models were used for. */
async function usage(tenant: Tenant, add: Add): Promise<void> {
  const models = [
    { provider: "anthropic", model: "claude-opus", input_tokens: 48_210, output_tokens: 3_190, cache_read_tokens: 210_400, cost_usd: 1.0842 },
    { provider: "anthropic", model: "claude-haiku", input_tokens: 91_400, output_tokens: 8_120, cache_creation_tokens: 12_800, cost_usd: 0.1319 },
    { provider: "mistral", model: "mistral-small", input_tokens: 30_050, output_tokens: 2_044, cost_usd: 0.0042 },
  ];
  for (const queue of ["reviews.summarize", "reviews.summarize", "emails.send"]) {
    for (const report of models.slice(queue === "emails.send" ? 1 : 0)) {
      await add(queue, 1);
      const { job_id, lease_token } = await tenant.fetch(queue);
      await tenant.call("POST", `/api/v1/ack/${job_id}`, { lease_token, result: { ok: true }, usage: report });
    }
  }
}

/** agentOf makes an agent job that is in its fourth iteration. */
async function agentOf(tenant: Tenant): Promise<string> {
  const id = await tenant.enqueue(
    "market.research",
    { question: "Which of our suppliers deliver late, and why?", account: 9_007_199 },
    { agent: { max_iterations: 6, max_cost_usd: 2, iteration_timeout: "10m" } },
  );
  const found = ["Three suppliers are late in a month out of two.", "Two of them ship through the same port.", "The port has been short of staff since May."];
  for (const [n] of found.entries()) {
    const { job_id, lease_token } = await tenant.fetch("market.research");
    await tenant.call("POST", `/api/v1/ack/${job_id}`, {
      lease_token,
      agent_status: "continue",
      checkpoint: { step: n + 1, notes: found.slice(0, n + 1), cursor: "9007199254740993" },
      usage: { provider: "anthropic", model: n === 1 ? "claude-haiku" : "claude-opus", input_tokens: 8_400 * (n + 1), output_tokens: 610 + 90 * n, cost_usd: [0.412, 0.0386, 0.5271][n] },
    });
  }
  return id;
}

/** running leases two of some jobs for an hour, and tells how far one of them is. */
async function running(tenant: Tenant, queue: string, add: (queue: string, count: number) => Promise<string>): Promise<string> {
  await add(queue, 7);
  const take = async (worker: string) =>
    (await tenant.call("POST", "/api/v1/fetch", { queues: [queue], worker_id: worker, hostname: `${worker}.fra.acme.example`, lease: 3600, wait: 5 }))
      .body as { job_id: string };
  await take("resizer-1");
  const { job_id } = await take("resizer-2");
  await tenant.call("POST", "/api/v1/heartbeat", { jobs: { [job_id]: { progress: { done: 2, of: 3, width: 640 } } } });
  return job_id;
}

async function askForJobs(tenant: Tenant): Promise<void> {
  const ask = (worker_id: string, host: string, ...queues: string[]) =>
    tenant.call("POST", "/api/v1/fetch", { queues, worker_id, hostname: `${host}.acme.example`, wait: "1ms" });
  for (const n of [1, 2]) await ask(`resizer-${n}`, `resizer-${n}.fra`, "images.crop", "images.watermark");
  await ask("encoder-1", "gpu-4.fra", "video.transcode");
  for (const n of [1, 2, 3]) await ask(`mailer-${n}`, `mail-${n % 2}.ams`, "mail.digest", "mail.receipt", "mail.reminder", "mail.welcome", "sms.send");
}

/** urgent moves many jobs forward in one call, which the audit log shows as one entry. */
async function urgent(tenant: Tenant): Promise<void> {
  const filter = { queue: "search.index", state: ["pending"] };
  await eventually("all jobs to be found", async () => {
    const { body } = await tenant.call("POST", "/api/v1/jobs/search", { ...filter, limit: 30 });
    if ((body as { jobs: unknown[] }).jobs.length !== 24) throw new Error("not listed yet");
  });
  await tenant.call("POST", "/api/v1/jobs/bulk", { action: "change_priority", priority: "high", filter });
}

/** listed waits until the list of jobs, which follows the queues, has caught up. */
async function listed(tenant: Tenant, last: string): Promise<void> {
  await eventually("the list of jobs to catch up", async () => {
    const { body } = await tenant.call("GET", "/api/v1/jobs?limit=5");
    if (!(body as { jobs: { id: string }[] }).jobs.some((job) => job.id === last)) throw new Error("not listed yet");
  });
}
