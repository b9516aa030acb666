import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { principals } from "~/data/principals";
import { TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { conditionsOf, type Preset, presetOptions, presets } from "./trusts";

interface TrustDialogProps {
  access: Access;
  account: ServiceAccount;
  onClose: () => void;
}

/** A new trust: whose tokens are exchanged for keys of a service account. */
export default function TrustDialog({ access, account, onClose }: TrustDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const [preset, setPreset] = useState<Preset>("github");
  const [owner, setOwner] = useState("");
  const [more, setMore] = useState("");
  const [issuer, setIssuer] = useState("");
  const [jwks, setJwks] = useState("");
  const kind = presets[preset];
  const cluster = kind.provider === TrustProvider.KUBERNETES;
  const save = useChange(
    tenant,
    () =>
      principals.trusts.createTrust({
        tenant,
        requestId,
        name,
        serviceAccount: account.id,
        provider: kind.provider,
        issuer,
        jwks,
        conditions: conditionsOf(preset, owner, more),
      }),
    { quiet: true, done: () => `Created the trust ${name}` },
  );
  const wrong = fieldErrors(save.error);
  const conditions = Object.entries(wrong).find(([field]) => field.startsWith("conditions"))?.[1];
  return (
    <FormDialog
      onClose={onClose}
      title={`New trust for ${account.name}`}
      description="Its tokens can be exchanged for a key of this service account, which expires after 15 min."
      submit="Create trust"
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={name.trim() && owner.trim() ? undefined : `Enter a name and the ${kind.what}.`}
      failure={otherError(save.error)}
    >
      <Field label="Name" error={wrong.name}>
        <Input autoFocus placeholder="web" value={name} onChange={setName} />
      </Field>
      <Field label="Tokens of" error={wrong.provider}>
        <Choice options={presetOptions} value={preset} onChange={setPreset} />
      </Field>
      <Field label={kind.label} error={conditions}>
        <Input placeholder={kind.placeholder} value={owner} onChange={setOwner} />
      </Field>
      <Field
        label="More conditions"
        note="optional"
        hint="One claim=value per line. Lines of the same claim are alternatives. A value can end with *."
      >
        <Textarea placeholder={kind.conditions} value={more} onChange={setMore} />
      </Field>
      <Field label="Issuer" note={cluster ? undefined : "optional"} error={wrong.issuer}>
        <Input placeholder={kind.issuer} value={issuer} onChange={setIssuer} />
      </Field>
      {cluster ? (
        <Field
          label="Public keys"
          note="optional"
          hint="For a cluster that can't be reached from here: kubectl get --raw /openid/v1/jwks"
          error={wrong.jwks}
        >
          <Textarea placeholder='{"keys": […]}' value={jwks} onChange={setJwks} />
        </Field>
      ) : null}
    </FormDialog>
  );
}
