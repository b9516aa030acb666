import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { roleOptions } from "~/features/members/roles";
import type { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import { KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import { inDays } from "~/lib/proto-time";
import { type Preset, presetOptions, presets } from "./roles";

interface CreateDialogProps {
  tenant: string;
  namespaces: readonly string[];
  /** The namespace that was open. */
  namespace: string;
  holder: TenantRole;
  onClose: () => void;
  onCreated: (name: string, secret: string) => void;
}

const lives = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "One year" },
  { value: "0", label: "Never" },
];

export default function CreateDialog(props: CreateDialogProps) {
  const { tenant, namespaces, namespace, holder, onClose, onCreated } = props;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const [kind, setKind] = useState<"jobs" | "management">("jobs");
  const [preset, setPreset] = useState<Preset>("app");
  const [where, setWhere] = useState(namespace);
  const [tenantRole, setTenantRole] = useState(holder);
  const [life, setLife] = useState("0");

  const create = useChange(
    tenant,
    () =>
      admin.keys.createApiKey({
        tenant,
        requestId,
        name,
        expiresAt: life === "0" ? undefined : inDays(Number(life)),
        ...(kind === "jobs"
          ? { kind: KeyKind.JOBS, namespaces: [where], roles: [...presets[preset].roles] }
          : { kind: KeyKind.MANAGEMENT, tenantRole }),
      }),
    { quiet: true },
  );
  const wrong = fieldErrors(create.error);

  function send() {
    create.mutate(undefined, { onSuccess: (answer) => onCreated(name, answer.secret) });
  }

  return (
    <FormDialog
      size="md"
      onClose={onClose}
      title="New API key"
      description="You'll see the key once. It works right away."
      submit="Create key"
      onSubmit={send}
      busy={create.isPending}
      blockedBecause={name ? undefined : "Enter a name."}
    >
      <Field label="Name" hint="Describe what uses this key." error={wrong.name ?? otherError(create.error)}>
        <Input autoFocus placeholder="billing worker" value={name} onChange={setName} />
      </Field>
      <Field label="Kind" error={wrong.kind}>
        <Choice
          options={[
            { value: "jobs", label: "Jobs", description: "Enqueue and run jobs." },
            { value: "management", label: "Management", description: "Terraform and the control API." },
          ]}
          value={kind}
          onChange={setKind}
        />
      </Field>
      {kind === "jobs" ? (
        <>
          <Field label="Permissions" error={wrong.roles}>
            <Choice options={presetOptions} value={preset} onChange={setPreset} />
          </Field>
          <Field label="Namespace" error={wrong.namespaces}>
            <Choice
              options={namespaces.map((value) => ({ value, label: value }))}
              value={where}
              onChange={setWhere}
            />
          </Field>
        </>
      ) : (
        <Field label="Role" error={wrong.tenant_role}>
          <Choice
            options={roleOptions(holder)}
            value={String(tenantRole)}
            onChange={(value) => setTenantRole(Number(value) as TenantRole)}
          />
        </Field>
      )}
      <Field label="Expires" error={wrong.expires_at}>
        <Choice options={lives} value={life} onChange={setLife} />
      </Field>
    </FormDialog>
  );
}
