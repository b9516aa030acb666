import { useState } from "react";
import { changedFields, fieldsOf, limitsOf, missingOf, namespaceChoices } from "~/components/access/limits";
import { LimitsFields } from "~/components/access/limits-fields";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";
import { dayText, endOfDay } from "~/lib/day";
import { dateOf } from "~/lib/proto-time";
import type { NamespaceNames } from "./words";

interface EditDialogProps {
  tenant: string;
  apiKey: ApiKey;
  names: NamespaceNames;
  onClose: () => void;
}

/** Another name, other limits or another end of a key. Its secret stays. */
export default function EditDialog({ tenant, apiKey, names, onClose }: EditDialogProps) {
  const before = limitsOf(apiKey);
  const ended = dayText(dateOf(apiKey.expiresAt));
  const [name, setName] = useState(apiKey.name);
  const [limits, setLimits] = useState(before);
  const [end, setEnd] = useState(ended);
  const paths = [
    ...(name.trim() === apiKey.name ? [] : ["name"]),
    ...changedFields(before, limits),
    ...(end === ended ? [] : ["expires_at"]),
  ];
  const save = useChange(
    tenant,
    () =>
      admin.keys.updateApiKey({
        tenant,
        keyId: apiKey.id,
        etag: apiKey.etag,
        name: name.trim(),
        ...fieldsOf(limits),
        expiresAt: endOfDay(end),
        updateMask: { paths },
      }),
    { quiet: true, done: () => `Saved ${name}. It works like this within a second` },
  );
  const wrong = wrongAbout(save.error);
  return (
    <FormDialog
      size="lg"
      onClose={onClose}
      title={`Edit ${apiKey.name}`}
      description={`A key can do what its owner, ${apiKey.owner}, can, narrowed by its own limits. Its secret stays.`}
      submit="Save key"
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={
        name.trim() === ""
          ? "Enter a name."
          : (missingOf(limits) ?? (paths.length === 0 ? "Nothing has changed." : undefined))
      }
      failure={otherError(save.error)}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <Field label="Name" error={wrong("name")}>
          <Input autoFocus value={name} onChange={setName} />
        </Field>
        <Field
          label="Expires after"
          hint="The end of that day, where you are. Leave empty for never."
          error={wrong("expires_at")}
        >
          <Input type="date" value={end} onChange={setEnd} />
        </Field>
      </div>
      <LimitsFields
        value={limits}
        onChange={setLimits}
        namespaces={namespaceChoices(
          [...names].map(([id, label]) => ({ id, name: label })),
          apiKey.namespaceIds,
        )}
        wrongAbout={wrong}
      />
    </FormDialog>
  );
}
