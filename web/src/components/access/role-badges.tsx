import { Badge } from "~/components/ui/badge";
import { roleName } from "~/data/access";

/** Roles as chips. */
export function RoleBadges({ roles, none = "none" }: { roles: readonly string[]; none?: string }) {
  if (roles.length === 0) return <span className="text-ink-3">{none}</span>;
  return (
    <span className="flex flex-wrap gap-1 max-sm:justify-end">
      {roles.map((role) => (
        <Badge key={role}>{roleName(role)}</Badge>
      ))}
    </span>
  );
}
