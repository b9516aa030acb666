import { useState } from "react";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import { newRequestId, useChange } from "~/data/admin-queries";
import { control, fieldErrors, otherError } from "~/data/control";
import { nameProblem } from "~/lib/names";

/** Creates a namespace. */
export default function NamespaceDialog({
  tenant,
  onClose,
}: {
  tenant: string;
  onClose: (made?: string) => void;
}) {
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const [deleteProtection, setProtection] = useState(false);
  const create = useChange(
    tenant,
    () => control.namespaces.createNamespace({ tenant, requestId, name, deleteProtection }),
    { quiet: true, done: () => `Created namespace ${name}` },
  );
  const wrong = fieldErrors(create.error);

  return (
    <FormDialog
      onClose={() => onClose()}
      title="New namespace"
      description="A namespace has its own jobs, queues and keys. Use one per environment or team."
      submit="Create"
      onSubmit={() => create.mutate(undefined, { onSuccess: () => onClose(name) })}
      busy={create.isPending}
      blockedBecause={name === "" ? "Enter a name." : (nameProblem(name) ?? undefined)}
    >
      <Field
        label="Name"
        hint="Lowercase letters, digits and hyphens. You can change it later."
        error={nameProblem(name) ?? wrong.name ?? otherError(create.error)}
      >
        <Input mono autoFocus placeholder="staging" value={name} onChange={setName} />
      </Field>
      <Field
        label="Protect from deletion"
        hint="You'll need to turn this off before you can delete the namespace."
      >
        <Switch checked={deleteProtection} onChange={setProtection} />
      </Field>
    </FormDialog>
  );
}
