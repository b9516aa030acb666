import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { roleOptions } from "~/components/access/role-picker";
import { Banner } from "~/components/ui/banner";
import { Button, IconButton } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { Field, Input } from "~/components/ui/field";
import { type Access, roleName } from "~/data/access";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { type SsoConnection, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { fieldsOf, formOf, maskOf, type SsoForm } from "./form";
import { Step } from "./step";

const SamlFields = lazy(async () => ({ default: (await import("./saml-fields")).SamlFields }));

interface ConnectionFormProps {
  access: Access;
  /** Undefined makes a new one, of this type. */
  connection: SsoConnection | undefined;
  type: SsoType;
  blocked: string | undefined;
  onCreated: (id: string | undefined) => void;
}

const noEntry = {
  value: "",
  label: "No entry",
  description: "They can't sign in.",
};

/** The settings of a connection. Every change must be tested again before it counts. */
export function ConnectionForm({ access, connection, type, blocked, onCreated }: ConnectionFormProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const read = { form: formOf(connection, type), etag: connection?.etag };
  const [began, setBegan] = useState(read);
  const [form, setForm] = useState(began.form);
  const changed = maskOf(form, began.form);
  // Others may change the connection while the form is open. What it began with is no longer true
  // then, unless they changed something that it doesn't show, or nobody has touched it yet.
  if (connection && read.etag !== began.etag) {
    if (changed.length === 0) setForm(read.form);
    if (changed.length === 0 || maskOf(read.form, began.form).length === 0) setBegan(read);
  }
  const stop = blocked ?? (connection && changed.length === 0 ? "Nothing has changed." : undefined);
  const saml = form.type === SsoType.SAML;
  const save = useChange(
    tenant,
    async () => {
      const fields = fieldsOf(form);
      if (!connection) return await admin.sso.createSsoConnection({ tenant, requestId, type, ...fields });
      return await admin.sso.updateSsoConnection({
        tenant,
        connectionId: connection.id,
        etag: began.etag,
        updateMask: { paths: changed },
        ...fields,
      });
    },
    {
      quiet: true,
      done: () =>
        connection || !saml
          ? "Saved. Try it with a test sign-in"
          : "Saved. Now register it with your provider",
    },
  );
  const wrong = fieldErrors(save.error);
  const refused = otherError(save.error);
  const set = (change: Partial<SsoForm>) => setForm((was) => ({ ...was, ...change }));

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!stop)
          save.mutate(undefined, {
            onSuccess: (answer) => {
              const saved = formOf(answer.connection, type);
              setBegan({ form: saved, etag: answer.connection?.etag });
              setForm(saved);
              if (!connection) onCreated(answer.connection?.id);
            },
          });
      }}
    >
      <Step
        number={2}
        progress={connection ? "done" : "now"}
        title="Add the connection"
        description={
          saml
            ? "Save it once to get what your provider needs. Then add your provider's metadata."
            : "Copy these from your provider. The secret is encrypted and never shown again."
        }
        footer={
          <div className="flex justify-end">
            <Button type="submit" variant="primary" busy={save.isPending} blockedBecause={stop}>
              {connection ? "Save changes" : saml ? "Create connection" : "Save, then test"}
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
            {saml ? null : (
              <>
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
              </>
            )}
          </div>
          {saml ? (
            <Suspense fallback={null}>
              <SamlFields
                form={form.saml}
                connection={connection}
                set={(change) => set({ saml: { ...form.saml, ...change } })}
                wrong={wrong}
              />
            </Suspense>
          ) : null}
          <Mappings form={form} set={set} access={access} wrong={wrong} />
        </div>
      </Step>
    </form>
  );
}

interface MappingsProps {
  form: SsoForm;
  set: (change: Partial<SsoForm>) => void;
  access: Access;
  wrong: Record<string, string>;
}

function Mappings({ form, set, access, wrong }: MappingsProps) {
  const roles = useQuery(principalReads.roles(access.tenant));
  const optionsFor = (chosen: string) => {
    if (roles.data) return roleOptions(access, roles.data, [chosen]);
    return chosen ? [{ value: chosen, label: roleName(chosen) }] : [];
  };
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
        <Field
          label={form.type === SsoType.SAML ? "Groups attribute" : "Groups claim"}
          hint={form.type === SsoType.SAML ? "In the assertion." : "In the ID token or the user info."}
          error={wrong.groups_claim}
        >
          <Input mono value={form.groupsClaim} onChange={(groupsClaim) => set({ groupsClaim })} />
        </Field>
        <Field label="Role for everyone else" error={wrong.default_role}>
          <Choice
            options={[noEntry, ...optionsFor(form.defaultRole)]}
            value={form.defaultRole}
            onChange={(defaultRole) => set({ defaultRole })}
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
              options={optionsFor(mapping.role).map(({ value, label, disabled }) => ({
                value,
                label,
                disabled,
              }))}
              value={mapping.role}
              onChange={(role) => change(mapping.key, { role })}
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
            mappings: [...form.mappings, { key: nextKey(form), group: "", role: "developer" }],
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
