import type { Option } from "~/components/ui/select";
import { roleDescriptions, roleNames } from "~/data/access";
import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";

const roles = [
  TenantRole.OWNER,
  TenantRole.ADMIN,
  TenantRole.DEVELOPER,
  TenantRole.VIEWER,
  TenantRole.AUDITOR,
  TenantRole.BILLING,
];

/** Roles to choose from; those that a holder may not give cannot be chosen. */
export function roleOptions(holder: TenantRole): Option[] {
  return roles.map((role) => ({
    value: String(role),
    label: roleNames[role],
    description: roleDescriptions[role],
    disabled: role === TenantRole.OWNER && holder !== TenantRole.OWNER,
  }));
}
