import { Permission, TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";

export const roleNames: Record<TenantRole, string> = {
  [TenantRole.UNSPECIFIED]: "none",
  [TenantRole.OWNER]: "Owner",
  [TenantRole.ADMIN]: "Admin",
  [TenantRole.BILLING]: "Billing",
  [TenantRole.DEVELOPER]: "Developer",
  [TenantRole.AUDITOR]: "Auditor",
  [TenantRole.VIEWER]: "Viewer",
};

export const roleDescriptions: Record<TenantRole, string> = {
  [TenantRole.UNSPECIFIED]: "",
  [TenantRole.OWNER]: "Everything, including other owners and deleting the tenant.",
  [TenantRole.ADMIN]: "Everything except owners.",
  [TenantRole.BILLING]: "Plan and invoices, no jobs.",
  [TenantRole.DEVELOPER]: "Jobs, queues, namespaces and keys.",
  [TenantRole.AUDITOR]: "Reads everything, including the audit log.",
  [TenantRole.VIEWER]: "Reads jobs and queues.",
};

const deeds: Partial<Record<Permission, string>> = {
  [Permission.TENANT_WRITE]: "change the tenant",
  [Permission.NAMESPACE_WRITE]: "change namespaces",
  [Permission.NAMESPACE_DELETE]: "delete namespaces",
  [Permission.KEY_READ]: "see API keys",
  [Permission.KEY_WRITE]: "change API keys",
  [Permission.MEMBER_READ]: "see members",
  [Permission.MEMBER_WRITE]: "change members",
  [Permission.SSO_READ]: "see single sign-on",
  [Permission.SSO_WRITE]: "change single sign-on",
  [Permission.AUDIT_READ]: "read the audit log",
  [Permission.JOB_READ]: "see jobs",
  [Permission.JOB_OPERATE]: "change jobs and queues",
};

/** What the signed-in user may do in one tenant. The server checks again, always. */
export interface Access {
  tenant: string;
  tenantUrl: string;
  role: TenantRole;
  can: (permission: Permission) => boolean;
  /** Why a control is off and who can change that; undefined if it is not off. */
  blocked: (permission: Permission) => string | undefined;
}

export function accessOf(entry: TenantAccess): Access {
  const allowed = new Set(entry.permissions);
  return {
    tenant: entry.tenant,
    tenantUrl: entry.tenantUrl,
    role: entry.role,
    can: (permission) => allowed.has(permission),
    blocked: (permission) =>
      allowed.has(permission)
        ? undefined
        : `Your role (${roleNames[entry.role].toLowerCase()}) can't ${deeds[permission] ?? "do this"}. An owner or admin of ${entry.tenant} can change your role.`,
  };
}
