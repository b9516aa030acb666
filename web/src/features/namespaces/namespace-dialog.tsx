import { useState } from "react";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import { newRequestId, useChange } from "~/data/admin-queries";
import { control, describeError, fieldErrors } from "~/data/control";
import { nameProblem } from "~/lib/names";

/** Makes a namespace. */
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
  const refused = create.error && Object.keys(wrong).length === 0 ? describeError(create.error) : undefined;

  function send() {
    create.mutate(undefined, { onSuccess: () => onClose(name) });
  }

  return (
    <Dialog
      open
      onOpenChange={() => onClose()}
      title="New namespace"
      description="A namespace has its own jobs, queues and keys. Use one per environment or team."
      footer={
        <>
          <Button onClick={() => onClose()}>Cancel</Button>
          <Button
            variant="primary"
            busy={create.isPending}
            onClick={send}
            blockedBecause={name === "" ? "Enter a name." : (nameProblem(name) ?? undefined)}
          >
            Create
          </Button>
        </>
      }
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (name && !nameProblem(name)) send();
        }}
      >
        <Field
          label="Name"
          hint="Lowercase letters, digits and hyphens. You can change it later."
          error={nameProblem(name) ?? wrong.name ?? refused}
        >
          <Input
            mono
            autoFocus
            autoComplete="off"
            placeholder="staging"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </Field>
        <Field
          label="Protect from deletion"
          hint="You'll need to turn this off before you can delete the namespace."
        >
          <Switch checked={deleteProtection} onChange={setProtection} />
        </Field>
      </form>
    </Dialog>
  );
}
