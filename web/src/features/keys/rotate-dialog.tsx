import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";

interface RotateDialogProps {
  tenant: string;
  apiKey: ApiKey;
  onClose: () => void;
  onRotated: (secret: string) => void;
}

const overlaps = [
  { value: "0", label: "Revoke now", description: "Use this if the secret has leaked." },
  { value: "3600", label: "1 hour" },
  { value: "86400", label: "1 day" },
  { value: "604800", label: "7 days" },
];

export default function RotateDialog({ tenant, apiKey, onClose, onRotated }: RotateDialogProps) {
  const [requestId] = useState(newRequestId);
  const [overlap, setOverlap] = useState("86400");
  const rotate = useChange(
    tenant,
    () => admin.keys.rotateApiKey({ tenant, keyId: apiKey.id, requestId, overlapSeconds: BigInt(overlap) }),
    { quiet: true },
  );
  return (
    <FormDialog
      onClose={onClose}
      title={`Rotate ${apiKey.name}`}
      description="The key keeps its ID and permissions and gets a new secret."
      submit="Rotate secret"
      onSubmit={() => rotate.mutate(undefined, { onSuccess: (answer) => onRotated(answer.secret) })}
      busy={rotate.isPending}
    >
      <Field label="Keep the old secret for" error={rotate.error ? describeError(rotate.error) : undefined}>
        <Choice options={overlaps} value={overlap} onChange={setOverlap} />
      </Field>
    </FormDialog>
  );
}
