import { useState } from "react";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { principals } from "~/data/principals";
import type { Group } from "~/gen/corvo/cloud/v1/principal_pb";

interface GroupDialogProps {
  tenant: string;
  /** Undefined makes a new one. */
  group?: Group | undefined;
  onClose: () => void;
}

/** A new group, or another name for one. */
export default function GroupDialog({ tenant, group, onClose }: GroupDialogProps) {
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState(group?.name ?? "");
  const [description, setDescription] = useState(group?.description ?? "");
  const save = useChange(
    tenant,
    async () => {
      if (!group) await principals.groups.createGroup({ tenant, requestId, name, description });
      else
        await principals.groups.updateGroup({
          tenant,
          groupId: group.id,
          etag: group.etag,
          name,
          description,
          updateMask: { paths: ["name", "description"] },
        });
    },
    { quiet: true, done: () => `${group ? "Saved" : "Created"} ${name}` },
  );
  const wrong = fieldErrors(save.error);
  return (
    <FormDialog
      onClose={onClose}
      title={group ? `Edit ${group.name}` : "New group"}
      description={group ? undefined : "Everybody in a group has the roles of the group."}
      submit={group ? "Save" : "Create group"}
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={name.trim() ? undefined : "Enter a name."}
      failure={otherError(save.error)}
    >
      <Field label="Name" error={wrong.name}>
        <Input autoFocus placeholder="on call" value={name} onChange={setName} />
      </Field>
      <Field label="Description" note="optional" error={wrong.description}>
        <Input placeholder="Whoever has the pager this week" value={description} onChange={setDescription} />
      </Field>
    </FormDialog>
  );
}
