import { lazyRouteComponent, type RouteComponent, redirect } from "@tanstack/react-router";
import {
  Bot,
  Boxes,
  CalendarClock,
  ChartColumn,
  CirclePause,
  Compass,
  Cpu,
  CreditCard,
  DoorClosed,
  FolderSync,
  Gauge,
  Globe,
  KeyRound,
  Layers,
  ListTree,
  type LucideIcon,
  OctagonX,
  Package,
  ScanEye,
  ScrollText,
  ShieldCheck,
  Tags,
  Users,
  UsersRound,
  Workflow,
} from "lucide-react";
import { part } from "./data/reach";
import { Permission } from "./gen/corvo/cloud/v1/access_pb";
import { parseDeadSearch } from "./lib/dead-search";
import { parseJobSearch } from "./lib/job-search";
import { choice, searchOf, text, texts } from "./lib/search";
import { signinSearch } from "./lib/signin-search";
import { usageGroupings, usagePeriods } from "./lib/usage";

// Every page is one row. The router, the navigation, the palette and the list of shortcuts
// are made of these rows; e2e/screens/manifest.ts has the views of each.

interface PageRow {
  /** As a link names it. */
  path: string;
  /** In the navigation, above the page and in the tab, unless the page says something else. */
  title?: string;
  /** Its code, loaded when it is visited. */
  component: RouteComponent;
  /** Parses the query string, and refuses unknown parameters. */
  search?: (raw: Record<string, unknown>) => object;
  beforeLoad?: (visit: { location: { hash: string } }) => void;
}

/** A page in the navigation: its path needs only tenant and namespace. */
interface DestinationRow extends PageRow {
  title: string;
  icon: LucideIcon;
  shortcut: string;
  /** Without it the page says why it is empty; the link stays. */
  permission: Permission;
  group: "Operate" | "Build" | "Access" | "Settings";
}

export type PageRows = Record<string, PageRow | DestinationRow>;

/** Of a chunk that is loaded when it is needed. */
export const chunk = <M extends Record<string, unknown>, Name extends keyof M & string>(
  load: () => Promise<M>,
  name: Name,
): RouteComponent => lazyRouteComponent(() => part(load), name);

// Pages that are one chunk.
const shared = () => import("./routes/chunk");
const cron = () => import("./routes/cron");
const who = () => import("./routes/who");
export const operator = () => import("./routes/operator");

/** Before the sign-in. Their titles change with every step. */
export const entryPages = {
  signup: {
    path: "/signup",
    component: chunk(() => import("./routes/signup"), "SignupPage"),
  },
  signupConfirm: {
    path: "/signup/confirm",
    component: chunk(() => import("./routes/signup-confirm"), "SignupConfirmPage"),
  },
  signin: {
    path: "/signin",
    search: signinSearch,
    beforeLoad: ({ location }) => {
      if (location.hash.startsWith("token=")) throw redirect({ to: "/signin/confirm", hash: location.hash });
    },
    component: chunk(() => import("./routes/signin"), "SigninPage"),
  },
  signinConfirm: {
    path: "/signin/confirm",
    component: chunk(() => import("./routes/signin-confirm"), "SigninConfirmPage"),
  },
  signinVerify: {
    path: "/signin/verify",
    component: chunk(() => import("./routes/signin-verify"), "SigninVerifyPage"),
  },
  device: {
    path: "/device",
    component: chunk(() => import("./routes/device"), "DevicePage"),
  },
  invite: {
    path: "/invite",
    component: chunk(() => import("./routes/invite"), "InvitePage"),
  },
} as const satisfies PageRows;

export const namespacePages = {
  overview: {
    path: "/$tenant/$namespace",
    title: "Overview",
    icon: Compass,
    shortcut: "g o",
    permission: Permission.QUEUE_READ,
    group: "Operate",
    search: searchOf((search) => ({
      view: choice(search, "view", ["start", "numbers"]),
    })),
    component: chunk(() => import("./routes/overview"), "OverviewPage"),
  },
  queues: {
    path: "/$tenant/$namespace/queues",
    title: "Queues",
    icon: Layers,
    shortcut: "g q",
    permission: Permission.QUEUE_READ,
    group: "Operate",
    component: chunk(() => import("./routes/queues"), "QueuesPage"),
  },
  jobs: {
    path: "/$tenant/$namespace/jobs",
    title: "Jobs",
    icon: ListTree,
    shortcut: "g j",
    permission: Permission.JOB_LIST,
    group: "Operate",
    search: parseJobSearch,
    component: chunk(() => import("./routes/jobs"), "JobsPage"),
  },
  job: {
    path: "/$tenant/$namespace/jobs/$job",
    title: "Job",
    search: searchOf((search) => ({
      tab: choice(search, "tab", ["payload", "result", "errors", "iterations"]),
    })),
    component: chunk(() => import("./routes/job"), "JobPage"),
  },
  workers: {
    path: "/$tenant/$namespace/workers",
    title: "Workers",
    icon: Cpu,
    shortcut: "g w",
    permission: Permission.WORKER_READ,
    group: "Operate",
    component: chunk(shared, "WorkersPage"),
  },
  schedules: {
    path: "/$tenant/$namespace/schedules",
    title: "Schedules",
    icon: CalendarClock,
    shortcut: "g c",
    permission: Permission.SCHEDULE_READ,
    group: "Operate",
    component: chunk(cron, "SchedulesPage"),
  },
  schedule: {
    path: "/$tenant/$namespace/schedules/$schedule",
    title: "Schedule",
    component: chunk(cron, "SchedulePage"),
  },
  batches: {
    path: "/$tenant/$namespace/batches",
    title: "Batches",
    icon: Package,
    shortcut: "g b",
    permission: Permission.JOB_LIST,
    group: "Operate",
    component: chunk(shared, "BatchesPage"),
  },
  batch: {
    path: "/$tenant/$namespace/batches/$batch",
    title: "Batch",
    component: chunk(shared, "BatchPage"),
  },
  chains: {
    path: "/$tenant/$namespace/chains",
    title: "Chains",
    icon: Workflow,
    shortcut: "g h",
    permission: Permission.JOB_LIST,
    group: "Operate",
    component: chunk(shared, "ChainsPage"),
  },
  chain: {
    path: "/$tenant/$namespace/chains/$chain",
    title: "Chain",
    component: chunk(shared, "ChainPage"),
  },
  dead: {
    path: "/$tenant/$namespace/dead",
    title: "Dead letter",
    icon: OctagonX,
    shortcut: "g d",
    permission: Permission.JOB_LIST,
    group: "Operate",
    search: parseDeadSearch,
    component: chunk(shared, "DeadPage"),
  },
  approvals: {
    path: "/$tenant/$namespace/approvals",
    title: "Approvals",
    icon: CirclePause,
    shortcut: "g p",
    permission: Permission.JOB_LIST,
    group: "Operate",
    search: searchOf((search) => ({
      queue: text(search, "queue"),
      tab: choice(search, "tab", ["policies"]),
    })),
    component: chunk(shared, "ApprovalsPage"),
  },
  usage: {
    path: "/$tenant/$namespace/usage",
    title: "Usage",
    icon: ChartColumn,
    shortcut: "g u",
    permission: Permission.USAGE_READ,
    group: "Operate",
    search: searchOf((search) => ({
      period: choice(search, "period", usagePeriods),
      by: choice(search, "by", usageGroupings),
    })),
    component: chunk(shared, "UsagePage"),
  },
  keys: {
    path: "/$tenant/$namespace/keys",
    title: "API keys",
    icon: KeyRound,
    shortcut: "g k",
    permission: Permission.KEY_READ,
    group: "Build",
    component: chunk(() => import("./routes/keys"), "KeysPage"),
  },
  key: {
    path: "/$tenant/$namespace/keys/$key",
    title: "API key",
    search: searchOf((search) => ({ tab: choice(search, "tab", ["did"]) })),
    component: chunk(() => import("./routes/key"), "KeyPage"),
  },
} as const satisfies PageRows;

export const tenantPages = {
  members: {
    path: "/$tenant/settings/members",
    title: "Members",
    icon: Users,
    shortcut: "g m",
    permission: Permission.MEMBER_READ,
    group: "Access",
    component: chunk(() => import("./routes/settings-members"), "MembersPage"),
  },
  serviceAccounts: {
    path: "/$tenant/settings/service-accounts",
    title: "Service accounts",
    icon: Bot,
    shortcut: "g v",
    permission: Permission.SERVICE_ACCOUNT_READ,
    group: "Access",
    component: chunk(who, "ServiceAccountsPage"),
  },
  groups: {
    path: "/$tenant/settings/groups",
    title: "Groups",
    icon: UsersRound,
    shortcut: "g g",
    permission: Permission.GROUP_READ,
    group: "Access",
    component: chunk(who, "GroupsPage"),
  },
  roles: {
    path: "/$tenant/settings/roles",
    title: "Roles",
    icon: Tags,
    shortcut: "g r",
    permission: Permission.ROLE_READ,
    group: "Access",
    component: chunk(who, "RolesPage"),
  },
  access: {
    path: "/$tenant/settings/access",
    title: "Access review",
    icon: ScanEye,
    shortcut: "g i",
    permission: Permission.ACCESS_REVIEW,
    group: "Access",
    search: searchOf((search) => ({
      tab: choice(search, "tab", ["explain", "test"]),
      show: choice(search, "show", ["unused"]),
      who: text(search, "who"),
      what: text(search, "what"),
      namespace: text(search, "namespace"),
      queue: text(search, "queue"),
    })),
    component: chunk(who, "AccessPage"),
  },
  account: {
    path: "/$tenant/settings/account",
    title: "Your account",
    component: chunk(() => import("./routes/account"), "AccountPage"),
  },
  namespaces: {
    path: "/$tenant/settings/namespaces",
    title: "Namespaces",
    icon: Boxes,
    shortcut: "g n",
    permission: Permission.NAMESPACE_READ,
    group: "Settings",
    component: chunk(() => import("./routes/settings-namespaces"), "NamespacesPage"),
  },
  sso: {
    path: "/$tenant/settings/sso",
    title: "Single sign-on",
    icon: ShieldCheck,
    shortcut: "g s",
    permission: Permission.SSO_READ,
    group: "Settings",
    search: texts("connection"),
    component: chunk(() => import("./routes/settings-sso"), "SsoPage"),
  },
  domains: {
    path: "/$tenant/settings/domains",
    title: "Domains",
    icon: Globe,
    shortcut: "g e",
    permission: Permission.SSO_READ,
    group: "Settings",
    component: chunk(() => import("./routes/settings-domains"), "DomainsPage"),
  },
  directory: {
    path: "/$tenant/settings/directory",
    title: "Directory sync",
    icon: FolderSync,
    shortcut: "g f",
    permission: Permission.SSO_READ,
    group: "Settings",
    search: texts("connection"),
    component: chunk(() => import("./routes/settings-directory"), "DirectoryPage"),
  },
  policy: {
    path: "/$tenant/settings/policy",
    title: "Sign-in policy",
    icon: DoorClosed,
    shortcut: "g y",
    permission: Permission.TENANT_READ,
    group: "Settings",
    component: chunk(() => import("./routes/settings-policy"), "PolicyPage"),
  },
  audit: {
    path: "/$tenant/settings/audit",
    title: "Audit log",
    icon: ScrollText,
    shortcut: "g a",
    permission: Permission.AUDIT_READ,
    group: "Settings",
    search: texts("action", "actor", "namespace", "target"),
    component: chunk(() => import("./routes/settings-audit"), "AuditPage"),
  },
  plan: {
    path: "/$tenant/settings/plan",
    title: "Plan and usage",
    icon: Gauge,
    shortcut: "g l",
    permission: Permission.TENANT_READ,
    group: "Settings",
    search: searchOf((search) => ({
      month: choice(search, "month", ["last"]),
      namespace: text(search, "namespace"),
    })),
    component: chunk(() => import("./routes/settings-plan"), "PlanPage"),
  },
  billing: {
    path: "/$tenant/settings/billing",
    title: "Billing",
    icon: CreditCard,
    shortcut: "g t",
    permission: Permission.BILLING_READ,
    group: "Settings",
    search: searchOf((search) => ({
      // The payment provider's page leads back here.
      checkout: choice(search, "checkout", ["done"]),
    })),
    component: chunk(() => import("./routes/settings-billing"), "BillingPage"),
  },
} as const satisfies PageRows;

/** For operators of the service: in a frame of their own, and in no tenant's navigation. They say their titles themselves. */
export const operatorPages = {
  operatorTenants: {
    path: "/operator",
    search: texts("search", "plan", "state", "sort"),
    component: chunk(operator, "Tenants"),
  },
  operatorTenant: {
    path: "/operator/tenants/$id",
    component: chunk(operator, "Tenant"),
  },
  operatorPlans: {
    path: "/operator/plans",
    component: chunk(operator, "Plans"),
  },
  operatorPlan: {
    path: "/operator/plans/$plan",
    component: chunk(operator, "Plan"),
  },
  reconciliation: {
    path: "/operator/reconciliation",
    component: chunk(operator, "Reconciliation"),
  },
} as const satisfies PageRows;

export const pages = { ...entryPages, ...namespacePages, ...tenantPages, ...operatorPages };

const segmentOf = (path: string) => path.split("/")[1];
const entrySegments = new Set(["", ...Object.values(entryPages).map(({ path }) => segmentOf(path))]);

/** Whether a page is one before the sign-in. A tenant's name may begin as the address of one does. */
export const isEntry = (path: string) => entrySegments.has(segmentOf(path));

export type Destination = Extract<(typeof pages)[keyof typeof pages], { shortcut: string }>;

/** The pages of the navigation, in its order. */
export const destinations = Object.values(pages).filter((page): page is Destination => "shortcut" in page);
