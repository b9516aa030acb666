import { useState } from "react";
import { RolePicker } from "~/components/access/role-picker";
import { FormDialog } from "~/components/ui/dialog";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import type { Member } from "~/gen/corvo/cloud/v1/member_pb";

interface RolesDialogProps {
  access: Access;
  member: Member;
  onClose: () => void;
}

/** Changes the roles that a member has in the whole tenant. */
export default function RolesDialog({ access, member, onClose }: RolesDialogProps) {
  const { tenant } = access;
  const { userId, email, etag } = member;
  const [roles, setRoles] = useState<string[]>(member.roles);
  const change = useChange(tenant, () => admin.members.updateMember({ tenant, userId, roles, etag }), {
    quiet: true,
    done: () => `Changed the roles of ${email}`,
  });
  return (
    <FormDialog
      onClose={onClose}
      title={`Roles of ${email}`}
      description="They apply to the whole tenant, within a second. Roles of groups and of single namespaces stay as they are."
      submit="Save roles"
      onSubmit={() => change.mutate(undefined, { onSuccess: onClose })}
      busy={change.isPending}
      blockedBecause={sameRoles(roles, member.roles) ? "Choose other roles first." : undefined}
      failure={otherError(change.error)}
    >
      <RolePicker access={access} value={roles} onChange={setRoles} error={fieldErrors(change.error).roles} />
    </FormDialog>
  );
}

function sameRoles(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((role) => b.includes(role));
}
