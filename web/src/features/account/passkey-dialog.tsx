import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { account } from "~/data/account";
import { describeError } from "~/data/control";
import { createPasskey, dismissed } from "./passkey";

export interface AddDialogProps {
  onClose: () => void;
  /** With the recovery codes that come with the first factor. */
  onAdded: (recoveryCodes: readonly string[]) => void;
}

/** Sets up a passkey: a fingerprint, a face, a security key. */
export default function PasskeyDialog({ onClose, onAdded }: AddDialogProps) {
  const [name, setName] = useState("");
  const add = useMutation({
    mutationFn: async () => {
      const { ceremony, optionsJson } = await account.factors.startPasskey({});
      const credentialJson = await createPasskey(optionsJson);
      return await account.factors.finishPasskey({ ceremony, credentialJson, name: name.trim() });
    },
    onSuccess: ({ recoveryCodes }) => onAdded(recoveryCodes),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (!add.isPending) add.mutate();
  }
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Add passkey"
      description="Your browser asks you for a fingerprint, your face, a PIN or a security key."
    >
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        {add.error && !dismissed(add.error) ? (
          <Banner tone="danger" title={describeError(add.error)} />
        ) : null}
        <Field label="Name" note="optional">
          <Input name="name" autoFocus placeholder="Work laptop" value={name} onChange={setName} />
        </Field>
        <Button type="submit" variant="primary" busy={add.isPending}>
          Add passkey
        </Button>
      </form>
    </Dialog>
  );
}
