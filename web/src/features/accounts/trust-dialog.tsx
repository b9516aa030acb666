import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldsOf, missingOf, unlimited } from "~/components/access/limits";
import { LimitsFields } from "~/components/access/limits-fields";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { newRequestId, useChange } from "~/data/admin-queries";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import { principals } from "~/data/principals";
import { reads } from "~/data/queries";
import { type Trust, TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { conditionsOf, type Preset, presetOptions, presets } from "./trusts";

interface TrustDialogProps {
  access: Access;
  account: ServiceAccount;
  onClose: () => void;
  onCreated: (trust: Trust | undefined) => void;
}

const lives = [
  { value: "300", label: "5 min" },
  { value: "900", label: "15 min" },
  { value: "3600", label: "1 h" },
];

/** A new trust: whose tokens are exchanged for keys of a service account. */
export default function TrustDialog({ access, account, onClose, onCreated }: TrustDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const [preset, setPreset] = useState<Preset>("github");
  const [owner, setOwner] = useState("");
  const [more, setMore] = useState("");
  const [issuer, setIssuer] = useState("");
  const [jwks, setJwks] = useState("");
  const [life, setLife] = useState("900");
  const [limits, setLimits] = useState(unlimited);
  const namespaces = useQuery(reads.namespaces(tenant));
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
        keyLifeSeconds: BigInt(life),
        ...fieldsOf(limits),
      }),
    { quiet: true, done: () => `Created the trust ${name}` },
  );
  const wrong = wrongAbout(save.error);
  return (
    <FormDialog
      size="md"
      onClose={onClose}
      title={`New trust for ${account.name}`}
      description="Its tokens can be exchanged for keys of this service account, which expire by themselves."
      submit="Create trust"
      onSubmit={() => save.mutate(undefined, { onSuccess: ({ trust }) => onCreated(trust) })}
      busy={save.isPending}
      blockedBecause={name.trim() && owner.trim() ? missingOf(limits) : `Enter a name and the ${kind.what}.`}
      failure={otherError(save.error)}
    >
      <Field label="Name" error={wrong("name")}>
        <Input autoFocus placeholder="web" value={name} onChange={setName} />
      </Field>
      <Field label="Tokens of" error={wrong("provider")}>
        <Choice options={presetOptions} value={preset} onChange={setPreset} />
      </Field>
      <Field label={kind.label} error={wrong("conditions")}>
        <Input placeholder={kind.placeholder} value={owner} onChange={setOwner} />
      </Field>
      <Field
        label="More conditions"
        note="optional"
        hint="One claim=value per line. Lines of the same claim are alternatives. A value can end with *."
      >
        <Textarea placeholder={kind.conditions} value={more} onChange={setMore} />
      </Field>
      <Field label="Issuer" note={cluster ? undefined : "optional"} error={wrong("issuer")}>
        <Input placeholder={kind.issuer} value={issuer} onChange={setIssuer} />
      </Field>
      {cluster ? (
        <Field
          label="Public keys"
          note="optional"
          hint="For a cluster that can't be reached from here: kubectl get --raw /openid/v1/jwks"
          error={wrong("jwks")}
        >
          <Textarea placeholder='{"keys": […]}' value={jwks} onChange={setJwks} />
        </Field>
      ) : null}
      <Field label="A key expires after" error={wrong("key_life_seconds")}>
        <Choice options={lives} value={life} onChange={setLife} />
      </Field>
      <details>
        <summary className="min-h-6 w-fit cursor-pointer rounded-sm text-13 font-medium text-ink-2 hover:text-ink">
          Limits of its keys
        </summary>
        <div className="flex flex-col gap-4 pt-3">
          <LimitsFields
            value={limits}
            onChange={setLimits}
            namespaces={(namespaces.data ?? []).map(({ id, name: label }) => ({ value: id, label }))}
            wrongAbout={wrong}
          />
        </div>
      </details>
    </FormDialog>
  );
}
