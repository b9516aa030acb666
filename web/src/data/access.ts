import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";

// What a refusal says of a permission's first word, where an s isn't enough.
const nouns: Record<string, string> = {
  access: "access",
  activity: "activity",
  approval: "approval policies",
  audit: "the audit log",
  billing: "billing",
  directory: "directory sync",
  key: "API keys",
  policy: "the sign-in policy",
  sso: "single sign-on",
  tenant: "the tenant",
  usage: "usage",
};

/** And of its last one, where that is not the verb that people use. */
const verbs: Record<string, string> = {
  read: "see",
  list: "see",
  update: "change",
  approve: "hold, approve or reject",
  assign: "give or take away",
};

/** What a permission allows: "retry jobs", "change directory sync". */
function deed(permission: Permission): string {
  const [noun = "", verb = ""] = nameOf(permission).split(".");
  return `${verbs[verb] ?? verb} ${nouns[noun] ?? `${noun.replaceAll("_", " ")}s`}`;
}

/** What the signed-in user may do in one tenant. The server checks again, always. */
export interface Access {
  tenant: string;
  tenantId: string;
  tenantUrl: string;
  /** Names of the user's roles in the whole tenant. */
  roles: readonly string[];
  /** In the whole tenant. */
  can: (permission: Permission) => boolean;
  /** In the whole tenant, or in a namespace or queue of it. */
  canSomewhere: (permission: Permission) => boolean;
  /** Whether all of these, by name, are the user's in the whole tenant. */
  holds: (permissions: readonly string[]) => boolean;
  /** Why a control is off and who can change that; undefined if it is not off. */
  blocked: (permission: Permission) => string | undefined;
  /** As blocked, where it is enough to have it somewhere. */
  blockedEverywhere: (permission: Permission) => string | undefined;
  /** Why a control is off for want of a permission. */
  refusal: (permission: Permission) => string;
}

export function accessOf(entry: TenantAccess): Access {
  const allowed = new Set(entry.permissions);
  const somewhere = new Set([...entry.permissions, ...entry.somewhere]);
  const names = new Set(entry.permissions.map(nameOf));
  const refusal = (permission: Permission) =>
    `${who(entry.roles)} can't ${deed(permission)}. An owner or admin of ${entry.tenant} can give you a role that can.`;
  return {
    tenant: entry.tenant,
    tenantId: entry.tenantId,
    tenantUrl: entry.tenantUrl,
    roles: entry.roles,
    can: (permission) => allowed.has(permission),
    canSomewhere: (permission) => somewhere.has(permission),
    holds: (permissions) => permissions.every((name) => names.has(name)),
    blocked: (permission) => (allowed.has(permission) ? undefined : refusal(permission)),
    blockedEverywhere: (permission) => (somewhere.has(permission) ? undefined : refusal(permission)),
    refusal,
  };
}

function who(roles: readonly string[]): string {
  if (roles.length === 0) return "You";
  return `Your ${roles.length === 1 ? "role" : "roles"} (${roles.join(", ")})`;
}

/** A permission as the API writes it: job.retry, service_account.read. */
export function nameOf(permission: Permission): string {
  return Permission[permission].toLowerCase().replace(/_([a-z]+)$/, ".$1");
}

const fixed = new Set([
  "owner",
  "admin",
  "billing",
  "developer",
  "auditor",
  "viewer",
  "operator",
  "producer",
  "worker",
]);

/** A role's name as the console shows it; those that a tenant made stand as they were written. */
export function roleName(role: string): string {
  return fixed.has(role) ? role.charAt(0).toUpperCase() + role.slice(1) : role;
}

/** Roles in the whole tenant; who has none is still a member. */
export function roleNames(roles: readonly string[]): string {
  return roles.length > 0 ? roles.map(roleName).join(", ") : "Member";
}
