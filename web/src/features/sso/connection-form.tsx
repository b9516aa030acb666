import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button, IconButton } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { roleOptions } from "~/features/members/roles";
import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import type { SsoConnection } from "~/gen/corvo/cloud/v1/sso_pb";
import { fieldsOf, formOf, maskOf, type SsoForm } from "./form";
import { Step } from "./step";

interface ConnectionFormProps {
  tenant: string;
  holder: TenantRole;
  /** Undefined makes a new one. */
  connection: SsoConnection | undefined;
  blocked: string | undefined;
}

const noEntry = {
  value: String(TenantRole.UNSPECIFIED),
  label: "No entry",
  description: "They can't sign in.",
};

/** The settings of a connection. Every change must be tested again before it counts. */
export function ConnectionForm({ tenant, holder, connection, blocked }: ConnectionFormProps) {
  const [requestId] = useState(newRequestId);
  const [form, setForm] = useState<SsoForm>(() => formOf(connection));
  const save = useChange(
    tenant,
    async () => {
      const fields = fieldsOf(form);
      if (!connection) await admin.sso.createSsoConnection({ tenant, requestId, ...fields });
      else
        await admin.sso.updateSsoConnection({
          tenant,
          connectionId: connection.id,
          etag: connection.etag,
          updateMask: { paths: maskOf(form) },
          ...fields,
        });
    },
    { quiet: true, done: () => "Saved. Try it with a test sign-in" },
  );
  const wrong = fieldErrors(save.error);
  const refused = otherError(save.error);
  const set = (change: Partial<SsoForm>) => setForm((was) => ({ ...was, ...change }));

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!blocked) save.mutate(undefined, { onSuccess: () => set({ clientSecret: "" }) });
      }}
    >
      <Step
        number={2}
        progress={connection ? "done" : "now"}
        title="Add the connection"
        description="Copy these from your provider. The secret is encrypted and never shown again."
        footer={
          <div className="flex justify-end">
            <Button type="submit" variant="primary" busy={save.isPending} blockedBecause={blocked}>
              {connection ? "Save changes" : "Save, then test"}
            </Button>
          </div>
        }
      >
        <div className="flex flex-col gap-4">
          {refused ? (
            <Banner tone="danger" title="Couldn't save the connection">
              {refused}
            </Banner>
          ) : null}
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Name" hint="Shown to your team." error={wrong.name}>
              <Input value={form.name} onChange={(name) => set({ name })} />
            </Field>
            <Field
              label="Issuer"
              hint="The address before /.well-known/openid-configuration."
              error={wrong.issuer}
            >
              <Input
                mono
                type="url"
                placeholder="https://login.example.com"
                value={form.issuer}
                onChange={(issuer) => set({ issuer })}
              />
            </Field>
            <Field label="Client ID" error={wrong.client_id}>
              <Input mono value={form.clientId} onChange={(clientId) => set({ clientId })} />
            </Field>
            <Field
              label="Client secret"
              note={connection?.hasClientSecret ? "stored" : undefined}
              hint={connection?.hasClientSecret ? "Leave empty to keep the current secret." : undefined}
              error={wrong.client_secret}
            >
              <Input
                mono
                type="password"
                autoComplete="new-password"
                value={form.clientSecret}
                onChange={(clientSecret) => set({ clientSecret })}
              />
            </Field>
          </div>
          <Mappings form={form} set={set} holder={holder} wrong={wrong} />
        </div>
      </Step>
    </form>
  );
}

interface MappingsProps {
  form: SsoForm;
  set: (change: Partial<SsoForm>) => void;
  holder: TenantRole;
  wrong: Record<string, string>;
}

function Mappings({ form, set, holder, wrong }: MappingsProps) {
  const change = (key: number, part: Partial<SsoForm["mappings"][number]>) =>
    set({ mappings: form.mappings.map((entry) => (entry.key === key ? { ...entry, ...part } : entry)) });
  return (
    <fieldset className="flex flex-col gap-3 border-t border-line pt-4">
      <legend className="sr-only">Roles</legend>
      <div>
        <h3 className="text-13 font-semibold">Roles</h3>
        <p className="mt-0.5 text-12 text-ink-3">
          Each sign-in uses the first matching group in this list. People who leave a group lose its role.
        </p>
      </div>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Groups claim" hint="In the ID token or the user info." error={wrong.groups_claim}>
          <Input mono value={form.groupsClaim} onChange={(groupsClaim) => set({ groupsClaim })} />
        </Field>
        <Field label="Role for everyone else" error={wrong.default_role}>
          <Choice
            options={[noEntry, ...roleOptions(holder)]}
            value={String(form.defaultRole)}
            onChange={(value) => set({ defaultRole: Number(value) as TenantRole })}
          />
        </Field>
      </div>
      {form.mappings.map((mapping, index) => (
        <div key={mapping.key} className="grid grid-cols-[1fr_9rem_auto] items-end gap-2">
          <Field label="Group" hideLabel={index > 0} error={wrong[`group_mappings[${index}].group`]}>
            <Input
              mono
              placeholder="engineering"
              value={mapping.group}
              onChange={(group) => change(mapping.key, { group })}
            />
          </Field>
          <Field label="Role" hideLabel={index > 0} error={wrong[`group_mappings[${index}].role`]}>
            <Choice
              options={roleOptions(holder).map(({ value, label }) => ({ value, label }))}
              value={String(mapping.role)}
              onChange={(value) => change(mapping.key, { role: Number(value) as TenantRole })}
            />
          </Field>
          <IconButton
            label={`Remove group ${mapping.group}`}
            onClick={() => set({ mappings: form.mappings.filter((entry) => entry.key !== mapping.key) })}
          >
            <Trash2 aria-hidden />
          </IconButton>
        </div>
      ))}
      <Button
        size="sm"
        className="self-start"
        icon={<Plus aria-hidden />}
        onClick={() =>
          set({
            mappings: [...form.mappings, { key: nextKey(form), group: "", role: TenantRole.DEVELOPER }],
          })
        }
      >
        Add group
      </Button>
    </fieldset>
  );
}

function nextKey(form: SsoForm): number {
  return Math.max(-1, ...form.mappings.map((mapping) => mapping.key)) + 1;
}
