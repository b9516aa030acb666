import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  notFound,
  Outlet,
  parseSearchWith,
  redirect,
  stringifySearchWith,
} from "@tanstack/react-router";
import { NotFound, ProblemPage } from "./components/problem";
import { Shell } from "./components/shell/shell";
import { accessOf } from "./data/access";
import { isUnauthenticated } from "./data/control";
import { reads } from "./data/queries";
import { part } from "./data/reach";
import { parseDeadSearch } from "./lib/dead-search";
import { whenIdle } from "./lib/idle";
import { parseJobSearch } from "./lib/job-search";
import { prefetchParts } from "./lib/prefetch";
import { recentNamespace, recentTenant } from "./lib/recent";
import { choice, exactJson, searchOf, text, texts } from "./lib/search";
import { signinSearch } from "./lib/signin-search";
import { usageGroupings, usagePeriods } from "./lib/usage";

// One tree, by hand: it is short, and every page is a chunk of its own.

/** A page whose code is loaded when it is visited. */
const page = <M extends Record<string, unknown>, Name extends keyof M>(load: () => Promise<M>, name: Name) =>
  lazyRouteComponent(() => part(load), name);

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  component: Outlet,
  errorComponent: ({ error }) => <ProblemPage error={error} />,
  notFoundComponent: () => <NotFound />,
});

async function identityOrSignIn(client: QueryClient, href: string) {
  try {
    return await client.ensureQueryData(reads.identity());
  } catch (error) {
    if (isUnauthenticated(error))
      throw redirect({ to: "/signin", search: href === "/" ? {} : { next: href } });
    throw error;
  }
}

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: async ({ context, location }) => {
    const identity = await identityOrSignIn(context.client, location.href);
    const recent = recentTenant();
    const entry = identity.tenants.find((tenant) => tenant.tenant === recent) ?? identity.tenants[0];
    throw entry
      ? redirect({ to: "/$tenant", params: { tenant: entry.tenant } })
      : redirect({ to: "/signup" });
  },
});

const signup = createRoute({
  getParentRoute: () => root,
  path: "/signup",
  component: page(() => import("./routes/signup"), "SignupPage"),
});

const signupConfirm = createRoute({
  getParentRoute: () => root,
  path: "/signup/confirm",
  component: page(() => import("./routes/signup-confirm"), "SignupConfirmPage"),
});

const signin = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: signinSearch,
  beforeLoad: ({ location }) => {
    if (location.hash.startsWith("token=")) throw redirect({ to: "/signin/confirm", hash: location.hash });
  },
  component: page(() => import("./routes/signin"), "SigninPage"),
});

const signinConfirm = createRoute({
  getParentRoute: () => root,
  path: "/signin/confirm",
  component: page(() => import("./routes/signin-confirm"), "SigninConfirmPage"),
});

// What people type, and what older mails say.
const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  beforeLoad: ({ location }) => {
    throw redirect({ to: "/signin", search: location.search, hash: location.hash });
  },
});

const invite = createRoute({
  getParentRoute: () => root,
  path: "/invite",
  component: page(() => import("./routes/invite"), "InvitePage"),
});

const tenant = createRoute({
  getParentRoute: () => root,
  path: "/$tenant",
  beforeLoad: async ({ context, params, location }) => {
    const identity = await identityOrSignIn(context.client, location.href);
    const entry = identity.tenants.find((candidate) => candidate.tenant === params.tenant);
    if (!entry) throw notFound();
    return { identity, access: accessOf(entry) };
  },
  component: Shell,
  errorComponent: ({ error }) => <ProblemPage error={error} />,
  notFoundComponent: page(() => import("./components/shell/absent"), "NoTenant"),
  onEnter: () => void whenIdle(() => void prefetchParts()),
});

const tenantHome = createRoute({
  getParentRoute: () => tenant,
  path: "/",
  beforeLoad: async ({ context, params }) => {
    const namespaces = await context.client.ensureQueryData(reads.namespaces(params.tenant)).catch(() => []);
    const recent = recentNamespace(params.tenant);
    const name =
      namespaces.find((entry) => entry.name === recent)?.name ??
      namespaces.find((entry) => entry.name === "default")?.name ??
      namespaces[0]?.name ??
      "default";
    throw redirect({ to: "/$tenant/$namespace", params: { tenant: params.tenant, namespace: name } });
  },
});

const settingsNamespaces = createRoute({
  getParentRoute: () => tenant,
  path: "/settings/namespaces",
  component: page(() => import("./routes/settings-namespaces"), "NamespacesPage"),
});

const settingsMembers = createRoute({
  getParentRoute: () => tenant,
  path: "/settings/members",
  component: page(() => import("./routes/settings-members"), "MembersPage"),
});

const settingsSso = createRoute({
  getParentRoute: () => tenant,
  path: "/settings/sso",
  component: page(() => import("./routes/settings-sso"), "SsoPage"),
});

const settingsAudit = createRoute({
  getParentRoute: () => tenant,
  path: "/settings/audit",
  validateSearch: texts("action", "actor", "namespace", "target"),
  component: page(() => import("./routes/settings-audit"), "AuditPage"),
});

const settings = createRoute({
  getParentRoute: () => tenant,
  path: "/settings",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/$tenant/settings/namespaces", params });
  },
});

const namespace = createRoute({
  getParentRoute: () => tenant,
  path: "/$namespace",
  component: Outlet,
});

const overview = createRoute({
  getParentRoute: () => namespace,
  path: "/",
  validateSearch: searchOf((search) => ({
    view: choice(search, "view", ["start", "numbers"]),
  })),
  component: page(() => import("./routes/overview"), "OverviewPage"),
});

const queues = createRoute({
  getParentRoute: () => namespace,
  path: "/queues",
  component: page(() => import("./routes/queues"), "QueuesPage"),
});

const jobs = createRoute({
  getParentRoute: () => namespace,
  path: "/jobs",
  validateSearch: parseJobSearch,
  component: page(() => import("./routes/jobs"), "JobsPage"),
});

const job = createRoute({
  getParentRoute: () => namespace,
  path: "/jobs/$job",
  validateSearch: searchOf((search) => ({
    tab: choice(search, "tab", ["payload", "result", "errors", "iterations"]),
  })),
  component: page(() => import("./routes/job"), "JobPage"),
});

const work = () => import("./routes/work");
const cron = () => import("./routes/cron");

const schedules = createRoute({
  getParentRoute: () => namespace,
  path: "/schedules",
  component: page(cron, "SchedulesPage"),
});

const schedule = createRoute({
  getParentRoute: () => namespace,
  path: "/schedules/$schedule",
  component: page(cron, "SchedulePage"),
});

const batches = createRoute({
  getParentRoute: () => namespace,
  path: "/batches",
  component: page(work, "BatchesPage"),
});

const batch = createRoute({
  getParentRoute: () => namespace,
  path: "/batches/$batch",
  component: page(work, "BatchPage"),
});

const chains = createRoute({
  getParentRoute: () => namespace,
  path: "/chains",
  component: page(work, "ChainsPage"),
});

const chain = createRoute({
  getParentRoute: () => namespace,
  path: "/chains/$chain",
  component: page(work, "ChainPage"),
});

const dead = createRoute({
  getParentRoute: () => namespace,
  path: "/dead",
  validateSearch: parseDeadSearch,
  component: page(work, "DeadPage"),
});

const approvals = createRoute({
  getParentRoute: () => namespace,
  path: "/approvals",
  validateSearch: searchOf((search) => ({
    queue: text(search, "queue"),
    tab: choice(search, "tab", ["policies"]),
  })),
  component: page(work, "ApprovalsPage"),
});

const workers = createRoute({
  getParentRoute: () => namespace,
  path: "/workers",
  component: page(work, "WorkersPage"),
});

const usage = createRoute({
  getParentRoute: () => namespace,
  path: "/usage",
  validateSearch: searchOf((search) => ({
    period: choice(search, "period", usagePeriods),
    by: choice(search, "by", usageGroupings),
  })),
  component: page(work, "UsagePage"),
});

const keys = createRoute({
  getParentRoute: () => namespace,
  path: "/keys",
  component: page(() => import("./routes/keys"), "KeysPage"),
});

const tree = root.addChildren([
  home,
  signup,
  signupConfirm,
  signin,
  signinConfirm,
  login,
  invite,
  tenant.addChildren([
    tenantHome,
    settings,
    settingsNamespaces,
    settingsMembers,
    settingsSso,
    settingsAudit,
    namespace.addChildren([
      overview,
      queues,
      jobs,
      job,
      workers,
      schedules,
      schedule,
      batches,
      batch,
      chains,
      chain,
      dead,
      approvals,
      usage,
      keys,
    ]),
  ]),
]);

export function newRouter(client: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { client },
    parseSearch: parseSearchWith(exactJson),
    stringifySearch: stringifySearchWith(JSON.stringify, exactJson),
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    defaultErrorComponent: ({ error }) => <ProblemPage error={error} />,
    defaultNotFoundComponent: () => <NotFound />,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
