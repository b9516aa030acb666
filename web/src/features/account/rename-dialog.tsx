import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { account } from "~/data/account";
import { fieldErrors, otherError } from "~/data/control";
import type { Factor } from "~/gen/corvo/cloud/v1/factor_pb";

interface RenameDialogProps {
  factor: Factor;
  onClose: () => void;
}

/** Gives a second factor another name. */
export default function RenameDialog({ factor, onClose }: RenameDialogProps) {
  const [name, setName] = useState(factor.name);
  const rename = useMutation({
    mutationFn: () => account.factors.renameFactor({ factorId: factor.id, name: name.trim() }),
    onSuccess: onClose,
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (!rename.isPending) rename.mutate();
  }
  return (
    <Dialog open onOpenChange={onClose} title="Rename second factor">
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        <Field label="Name" error={fieldErrors(rename.error).name ?? otherError(rename.error)}>
          <Input name="name" autoFocus value={name} onChange={setName} />
        </Field>
        <Button type="submit" variant="primary" busy={rename.isPending}>
          Rename second factor
        </Button>
      </form>
    </Dialog>
  );
}
