import { useState } from "react";
import { RolePicker } from "~/components/access/role-picker";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { principals } from "~/data/principals";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";

interface AccountDialogProps {
  access: Access;
  /** Undefined makes a new one. */
  account?: ServiceAccount | undefined;
  onClose: () => void;
}

/** A new service account, or another name for one. */
export default function AccountDialog({ access, account, onClose }: AccountDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState(account?.name ?? "");
  const [description, setDescription] = useState(account?.description ?? "");
  const [roles, setRoles] = useState<string[]>([]);
  const save = useChange(
    tenant,
    async () => {
      if (!account)
        await principals.accounts.createServiceAccount({ tenant, requestId, name, description, roles });
      else
        await principals.accounts.updateServiceAccount({
          tenant,
          serviceAccountId: account.id,
          etag: account.etag,
          name,
          description,
          updateMask: { paths: ["name", "description"] },
        });
    },
    { quiet: true, done: () => `${account ? "Saved" : "Created"} ${name}` },
  );
  const wrong = fieldErrors(save.error);
  return (
    <FormDialog
      onClose={onClose}
      title={account ? `Edit ${account.name}` : "New service account"}
      description={account ? undefined : "For a program or a machine. Its keys can do what it can."}
      submit={account ? "Save" : "Create service account"}
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={name.trim() ? undefined : "Enter a name."}
      failure={otherError(save.error)}
    >
      <Field label="Name" error={wrong.name}>
        <Input autoFocus placeholder="billing" value={name} onChange={setName} />
      </Field>
      <Field label="Description" note="optional" error={wrong.description}>
        <Input placeholder="Charges cards every night" value={description} onChange={setDescription} />
      </Field>
      {account ? null : (
        <RolePicker
          access={access}
          hint="In the whole tenant. Leave all unchecked to give roles in namespaces or queues afterwards."
          value={roles}
          onChange={setRoles}
          error={wrong.roles}
        />
      )}
    </FormDialog>
  );
}
