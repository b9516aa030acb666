import { useState } from "react";
import { Button } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { describeError, fieldErrors } from "~/data/control";
import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import { roleOptions } from "./roles";

interface InviteDialogProps {
  tenant: string;
  /** Of the one who invites: nobody grants more than they hold. */
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

  function send() {
    invite.mutate(undefined, { onSuccess: onClose });
  }

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Invite member"
      description="They get an email with a link that expires in 7 days."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={invite.isPending} onClick={send}>
            Send invitation
          </Button>
        </>
      }
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <Field label="Email" error={wrong.email ?? otherProblem(invite.error, wrong)}>
          <Input
            type="email"
            autoComplete="off"
            autoFocus
            required
            placeholder="name@company.com"
            value={email}
            onChange={(event) => setEmail(event.target.value)}
          />
        </Field>
        <Field label="Role" error={wrong.role}>
          <Choice
            options={roleOptions(holder)}
            value={String(role)}
            onChange={(value) => setRole(Number(value) as TenantRole)}
          />
        </Field>
      </form>
    </Dialog>
  );
}

/** A refusal that is about no field stands under the first one. */
function otherProblem(error: unknown, fields: Record<string, string>): string | undefined {
  return error && Object.keys(fields).length === 0 ? describeError(error) : undefined;
}
