import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import { roleOptions } from "./roles";

interface InviteDialogProps {
  tenant: string;
  /** Role of the inviting user: nobody can grant more than they hold. */
  holder: TenantRole;
  onClose: () => void;
}

export default function InviteDialog({ tenant, holder, onClose }: InviteDialogProps) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState(TenantRole.DEVELOPER);
  const invite = useChange(tenant, () => admin.members.createInvitation({ tenant, email, role }), {
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
      <Field label="Role" error={wrong.role}>
        <Choice
          options={roleOptions(holder)}
          value={String(role)}
          onChange={(value) => setRole(Number(value) as TenantRole)}
        />
      </Field>
    </FormDialog>
  );
}
