import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldsOf, missingOf, namespaceChoices } from "~/components/access/limits";
import { LimitsFields } from "~/components/access/limits-fields";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import type { Access } from "~/data/access";
import { newRequestId, useChange } from "~/data/admin-queries";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import { principals } from "~/data/principals";
import { reads } from "~/data/queries";
import { type Trust, TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { conditionsOf, formOf, maskOf, presetOptions, presets, type TrustForm } from "./trusts";

interface TrustDialogProps {
  access: Access;
  account: ServiceAccount;
  /** Undefined makes a new one. */
  trust?: Trust | undefined;
  onClose: () => void;
  onSaved: (trust: Trust | undefined) => void;
}

const lives = [
  { value: "300", label: "5 min" },
  { value: "900", label: "15 min" },
  { value: "3600", label: "1 h" },
];

/** A trust: whose tokens are exchanged for keys of a service account. */
export default function TrustDialog({ access, account, trust, onClose, onSaved }: TrustDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [before] = useState(() => formOf(trust));
  const [form, setForm] = useState(before);
  const set = (change: Partial<TrustForm>) => setForm((was) => ({ ...was, ...change }));
  const namespaces = useQuery(reads.namespaces(tenant));
  const paths = maskOf(before, form);
  const save = useChange(
    tenant,
    async () => {
      const fields = requestOf(tenant, form);
      const { issuer, preset } = form;
      if (trust)
        return await principals.trusts.updateTrust({
          ...fields,
          trustId: trust.id,
          etag: trust.etag,
          updateMask: { paths },
        });
      const { provider } = presets[preset];
      return await principals.trusts.createTrust({
        ...fields,
        requestId,
        serviceAccount: account.id,
        provider,
        issuer: issuer.trim(),
      });
    },
    { quiet: true, done: () => `${trust ? "Saved" : "Created"} the trust ${form.name.trim()}` },
  );
  return (
    <FormDialog
      size="md"
      onClose={onClose}
      title={trust ? `Edit ${trust.name}` : `New trust for ${account.name}`}
      description={
        trust
          ? "The keys that it gave are revoked, unless only its name or the life of its keys changes."
          : "Its tokens can be exchanged for keys of this service account, which expire by themselves."
      }
      submit={trust ? "Save trust" : "Create trust"}
      onSubmit={() => save.mutate(undefined, { onSuccess: (answer) => onSaved(answer.trust) })}
      busy={save.isPending}
      blockedBecause={missing(form) ?? (trust && paths.length === 0 ? "Nothing has changed." : undefined)}
      failure={otherError(save.error)}
    >
      <TrustFields
        form={form}
        set={set}
        made={trust !== undefined}
        lines={trust !== undefined && !before.owner}
        namespaces={namespaceChoices(namespaces.data ?? [], before.limits.namespaces)}
        wrong={wrongAbout(save.error)}
      />
    </FormDialog>
  );
}

/** What a new trust and a changed one have both. */
function requestOf(tenant: string, form: TrustForm) {
  return {
    tenant,
    name: form.name.trim(),
    jwks: form.jwks,
    audience: form.audience.trim(),
    conditions: conditionsOf(form),
    keyLifeSeconds: BigInt(form.life),
    allowReuse: form.reuse,
    ...fieldsOf(form.limits),
  };
}

function missing({ name, owner, more, preset, limits }: TrustForm): string | undefined {
  if (name.trim() && (owner.trim() || more.trim())) return missingOf(limits);
  return `Enter a name and the ${presets[preset].what}.`;
}

interface TrustFieldsProps {
  form: TrustForm;
  set: (change: Partial<TrustForm>) => void;
  /** Who signs its tokens stays, once it is made. */
  made: boolean;
  /** Its conditions don't say whose tokens they are by the claim that the form asks for. */
  lines: boolean;
  namespaces: ReturnType<typeof namespaceChoices>;
  wrong: (field: string) => string | undefined;
}

function TrustFields({ form, set, made, lines, namespaces, wrong }: TrustFieldsProps) {
  const kind = presets[form.preset];
  const cluster = kind.provider === TrustProvider.KUBERNETES;
  const named = cluster || kind.provider === TrustProvider.OTHER;
  const bind = <Name extends keyof TrustForm>(name: Name) => ({
    value: form[name],
    onChange: (value: TrustForm[Name]) => set({ [name]: value }),
  });
  return (
    <>
      <Field label="Name" error={wrong("name")}>
        <Input autoFocus placeholder="web" {...bind("name")} />
      </Field>
      {made ? null : (
        <Field label="Tokens of" error={wrong("provider")}>
          <Choice options={presetOptions} value={form.preset} onChange={(preset) => set({ preset })} />
        </Field>
      )}
      {lines ? null : (
        <Field label={kind.label} error={wrong("conditions")}>
          <Input placeholder={kind.placeholder} {...bind("owner")} />
        </Field>
      )}
      <Field
        label={lines ? "Conditions" : "More conditions"}
        note={lines ? undefined : "optional"}
        error={lines ? wrong("conditions") : undefined}
        hint="One claim=value per line. Lines of the same claim are alternatives. A value can end with *."
      >
        <Textarea placeholder={kind.conditions} {...bind("more")} />
      </Field>
      {made ? null : (
        <Field label="Issuer" note={named ? undefined : "optional"} error={wrong("issuer")}>
          <Input placeholder={kind.issuer} {...bind("issuer")} />
        </Field>
      )}
      {named || form.jwks ? (
        <Field
          label="Public keys"
          note="optional"
          hint={
            cluster
              ? "For a cluster that can't be reached from here: kubectl get --raw /openid/v1/jwks"
              : "For an issuer that can't be reached from here: its JSON Web Key Set."
          }
          error={wrong("jwks")}
        >
          <Textarea placeholder='{"keys": […]}' {...bind("jwks")} />
        </Field>
      ) : null}
      <Field label="A key expires after" error={wrong("key_life_seconds")}>
        <Choice options={livesWith(form.life)} {...bind("life")} />
      </Field>
      <Field
        label="Audience"
        note={made ? undefined : "optional"}
        hint={`Tokens must be for exactly this.${made ? "" : " Leave empty for this service's address, a slash and the tenant."}`}
        error={wrong("audience")}
      >
        <Input placeholder="https://corvo.example/acme" {...bind("audience")} />
      </Field>
      <Field
        label="Tokens can be reused"
        hint="A token can be exchanged again until it ends. Terraform and pods that restart need it."
        error={wrong("allow_reuse")}
      >
        <Switch checked={form.reuse} onChange={(reuse) => set({ reuse })} />
      </Field>
      <details>
        <summary className="min-h-6 w-fit cursor-pointer rounded-sm text-13 font-medium text-ink-2 hover:text-ink">
          Limits of its keys
        </summary>
        <div className="flex flex-col gap-4 pt-3">
          <LimitsFields
            value={form.limits}
            onChange={(limits) => set({ limits })}
            namespaces={namespaces}
            wrongAbout={wrong}
          />
        </div>
      </details>
    </>
  );
}

/** The lives to choose from, and that of a trust which has another. */
function livesWith(life: string) {
  if (lives.some(({ value }) => value === life)) return lives;
  return [...lives, { value: life, label: `${Number(life) / 60} min` }];
}
