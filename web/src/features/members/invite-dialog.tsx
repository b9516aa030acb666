import { useState } from "react";
import { RolePicker } from "~/components/access/role-picker";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";

interface InviteDialogProps {
  access: Access;
  onClose: () => void;
}

export default function InviteDialog({ access, onClose }: InviteDialogProps) {
  const { tenant } = access;
  const [email, setEmail] = useState("");
  const [roles, setRoles] = useState<string[]>(["viewer"]);
  const invite = useChange(tenant, () => admin.members.createInvitation({ tenant, email, roles }), {
    quiet: true,
    done: () => `Invited ${email}`,
  });
  const wrong = fieldErrors(invite.error);

  return (
    <FormDialog
      onClose={onClose}
      title="Invite member"
      description="They get an email with a link that expires in 7 days."
      submit="Send invitation"
      onSubmit={() => invite.mutate(undefined, { onSuccess: onClose })}
      busy={invite.isPending}
    >
      <Field label="Email" error={wrong.email ?? otherError(invite.error)}>
        <Input
          type="email"
          autoFocus
          required
          placeholder="name@company.com"
          value={email}
          onChange={setEmail}
        />
      </Field>
      <RolePicker
        access={access}
        hint="In the whole tenant. You can give roles in single namespaces once they have joined."
        value={roles}
        onChange={setRoles}
        error={wrong.roles}
      />
    </FormDialog>
  );
}
