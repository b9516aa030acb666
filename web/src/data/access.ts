import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";

const deeds: Partial<Record<Permission, string>> = {
  [Permission.TENANT_UPDATE]: "change the tenant",
  [Permission.NAMESPACE_CREATE]: "create namespaces",
  [Permission.NAMESPACE_UPDATE]: "change this namespace",
  [Permission.NAMESPACE_DELETE]: "delete this namespace",
  [Permission.KEY_READ]: "see API keys",
  [Permission.KEY_CREATE]: "create API keys",
  [Permission.KEY_UPDATE]: "change API keys",
  [Permission.KEY_REVOKE]: "revoke API keys",
  [Permission.MEMBER_READ]: "see members",
  [Permission.MEMBER_INVITE]: "invite people",
  [Permission.MEMBER_UPDATE]: "change members",
  [Permission.MEMBER_REMOVE]: "remove members",
  [Permission.GROUP_READ]: "see groups",
  [Permission.GROUP_UPDATE]: "change groups",
  [Permission.ROLE_READ]: "see roles",
  [Permission.ROLE_UPDATE]: "change roles",
  [Permission.ROLE_ASSIGN]: "give or take away roles",
  [Permission.SERVICE_ACCOUNT_READ]: "see service accounts",
  [Permission.SERVICE_ACCOUNT_UPDATE]: "change service accounts",
  [Permission.SSO_READ]: "see single sign-on",
  [Permission.SSO_UPDATE]: "change single sign-on",
  [Permission.AUDIT_READ]: "read the audit log",
  [Permission.ACCESS_REVIEW]: "review access",
  [Permission.BUDGET_UPDATE]: "change budgets",
  [Permission.APPROVAL_UPDATE]: "change approval policies",
  [Permission.JOB_ENQUEUE]: "enqueue jobs",
  [Permission.JOB_FETCH]: "fetch jobs",
  [Permission.JOB_RETRY]: "retry jobs",
  [Permission.JOB_CANCEL]: "cancel jobs",
  [Permission.JOB_DELETE]: "delete jobs",
  [Permission.JOB_MOVE]: "move jobs",
  [Permission.JOB_APPROVE]: "hold, approve or reject jobs",
  [Permission.QUEUE_PAUSE]: "pause queues",
  [Permission.QUEUE_UPDATE]: "change queues",
  [Permission.QUEUE_CLEAR]: "clear queues",
  [Permission.QUEUE_DELETE]: "delete queues",
  [Permission.SCHEDULE_UPDATE]: "change schedules",
};

/** What the signed-in user may do in one tenant. The server checks again, always. */
export interface Access {
  tenant: string;
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
    `${who(entry.roles)} can't ${deeds[permission] ?? "do this"}. An owner or admin of ${entry.tenant} can give you a role that can.`;
  return {
    tenant: entry.tenant,
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
