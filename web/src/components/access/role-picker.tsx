import { useQuery } from "@tanstack/react-query";
import { Banner } from "~/components/ui/banner";
import { Checks } from "~/components/ui/checks";
import type { Option } from "~/components/ui/option";
import { SkeletonRows } from "~/components/ui/skeleton";
import { type Access, roleName } from "~/data/access";
import { describeError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import type { Role } from "~/gen/corvo/cloud/v1/role_pb";

interface RolePickerProps {
  access: Access;
  label?: string;
  hint?: string;
  error?: string | undefined;
  value: readonly string[];
  onChange: (roles: string[]) => void;
}

/** Roles by name; those with permissions that the user lacks can't be chosen. */
export function RolePicker({ access, label = "Roles", value, ...rest }: RolePickerProps) {
  const roles = useQuery(principalReads.roles(access.tenant));
  if (roles.error) return <Banner tone="danger" title={describeError(roles.error)} />;
  if (!roles.data) return <SkeletonRows rows={4} columns={1} label="Loading roles" />;
  return <Checks label={label} value={value} options={roleOptions(access, roles.data, value)} {...rest} />;
}

/** Roles to choose from. What is chosen already can always be taken back. */
export function roleOptions(
  access: Access,
  roles: readonly Role[],
  chosen: readonly string[] = [],
): Option[] {
  return roles.map((role) => {
    const mine = access.holds(role.permissions);
    return {
      value: role.name,
      label: roleName(role.name),
      description: mine ? role.description : `You can't give it: it has permissions that you don't have.`,
      disabled: !mine && !chosen.includes(role.name),
    };
  });
}
