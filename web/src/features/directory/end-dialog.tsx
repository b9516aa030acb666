import { useState } from "react";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { directory } from "~/data/directory";
import type { ScimToken } from "~/gen/corvo/cloud/v1/directory_pb";
import { dayText, endOfDay } from "~/lib/day";
import { dateOf } from "~/lib/proto-time";

interface EndDialogProps {
  tenant: string;
  token: ScimToken;
  onClose: () => void;
}

/** Moves the end of a directory's token, which stays the same. */
export default function EndDialog({ tenant, token, onClose }: EndDialogProps) {
  const ended = dayText(dateOf(token.expiresAt));
  const [end, setEnd] = useState(ended);
  const save = useChange(
    tenant,
    () => directory.updateScimToken({ tenant, tokenId: token.id, expiresAt: endOfDay(end) }),
    { quiet: true, done: () => "Saved the end of the token" },
  );
  return (
    <FormDialog
      onClose={onClose}
      title={`End of ${token.prefix}…`}
      description="The token stays the same, so there is nothing to do at your directory."
      submit="Save end"
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={end === "" ? "Choose a day." : end === ended ? "Nothing has changed." : undefined}
      failure={otherError(save.error)}
    >
      <Field
        label="Expires after"
        hint="The end of that day, where you are. At most two years from now."
        error={fieldErrors(save.error).expires_at}
      >
        <Input autoFocus type="date" value={end} onChange={setEnd} />
      </Field>
    </FormDialog>
  );
}
