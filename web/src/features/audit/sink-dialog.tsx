import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import type { AuditSink } from "~/gen/corvo/cloud/v1/audit_pb";
import {
  changedPaths,
  formatOptions,
  formOf,
  kindOptions,
  missingOf,
  type SinkTexts,
  targetOf,
} from "./sinks";

interface SinkDialogProps {
  tenant: string;
  /** The one to change; none: a new one. */
  sink?: AuditSink | undefined;
  onClose: () => void;
}

/** A new sink of the audit log, or another name, format or target of one. */
export default function SinkDialog({ tenant, sink, onClose }: SinkDialogProps) {
  const [requestId] = useState(newRequestId);
  const [form, setForm] = useState(() => formOf(sink));
  const [fromBeginning, setFromBeginning] = useState(false);
  const save = useChange(
    tenant,
    async () => {
      const request = { tenant, name: form.name.trim(), format: Number(form.format), target: targetOf(form) };
      if (!sink) return (await admin.audit.createAuditSink({ ...request, requestId, fromBeginning })).sink;
      const updateMask = { paths: changedPaths(form, sink) };
      return (await admin.audit.updateAuditSink({ ...request, sinkId: sink.id, etag: sink.etag, updateMask }))
        .sink;
    },
    { quiet: true, done: (saved) => `${sink ? "Changed" : "Created"} the sink ${saved?.name ?? ""}` },
  );
  const wrong = fieldErrors(save.error);

  function text(field: keyof SinkTexts) {
    return {
      value: form.texts[field],
      onChange: (value: string) => setForm((was) => ({ ...was, texts: { ...was.texts, [field]: value } })),
    };
  }

  // A password manager must not fill in, or keep, what is no password of a person.
  const secret = { type: "password", autoComplete: "new-password" };
  const kept = sink ? "Never shown. Needed again if you change the target." : "Never shown again.";
  return (
    <FormDialog
      onClose={onClose}
      title={sink ? `Edit sink ${sink.name}` : "New sink"}
      description="Every new entry is sent there, in order. A test event is sent before a target is saved."
      submit={sink ? "Save sink" : "Create sink"}
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={missingOf(form, sink)}
      failure={otherError(save.error)}
    >
      <Field label="Name" error={wrong.name}>
        <Input
          autoFocus
          placeholder="SIEM"
          value={form.name}
          onChange={(name) => setForm({ ...form, name })}
        />
      </Field>
      <Field label="Send to">
        <Choice options={kindOptions} value={form.kind} onChange={(kind) => setForm({ ...form, kind })} />
      </Field>
      {form.kind === "https" ? (
        <>
          <Field label="URL" error={wrong["https.url"]}>
            <Input type="url" placeholder="https://siem.company.com/audit" {...text("url")} />
          </Field>
          <Field
            label="Signing secret"
            hint={`At least 16 characters; requests are signed with it. ${kept}`}
            error={wrong["https.signing_secret"]}
          >
            <Input {...secret} {...text("signingSecret")} />
          </Field>
          <Field
            label="Authorization header"
            note="optional"
            hint="Never shown again."
            error={wrong["https.authorization"]}
          >
            <Input {...secret} placeholder="Bearer …" {...text("authorization")} />
          </Field>
        </>
      ) : null}
      {form.kind === "s3" ? (
        <>
          <Field label="Endpoint" error={wrong["s3.endpoint"]}>
            <Input type="url" placeholder="https://s3.eu-central-1.amazonaws.com" {...text("endpoint")} />
          </Field>
          <Field label="Region" error={wrong["s3.region"]}>
            <Input placeholder="eu-central-1" {...text("region")} />
          </Field>
          <Field label="Bucket" error={wrong["s3.bucket"]}>
            <Input placeholder="company-audit" {...text("bucket")} />
          </Field>
          <Field label="Prefix" note="optional" error={wrong["s3.prefix"]}>
            <Input placeholder="corvo/" {...text("prefix")} />
          </Field>
          <Field label="Access key ID" error={wrong["s3.access_key_id"]}>
            <Input {...text("accessKeyId")} />
          </Field>
          <Field label="Secret access key" hint={kept} error={wrong["s3.secret_access_key"]}>
            <Input {...secret} {...text("secretAccessKey")} />
          </Field>
        </>
      ) : null}
      {form.kind === "syslog" ? (
        <>
          <Field label="Host" error={wrong["syslog.host"]}>
            <Input placeholder="logs.company.com" {...text("host")} />
          </Field>
          <Field label="Port" error={wrong["syslog.port"]}>
            <Input inputMode="numeric" {...text("port")} />
          </Field>
          <Field
            label="CA certificates"
            note="optional"
            hint="PEM; empty: the public ones."
            error={wrong["syslog.ca_pem"]}
          >
            <Textarea placeholder="-----BEGIN CERTIFICATE-----" {...text("caPem")} />
          </Field>
        </>
      ) : null}
      <Field label="Format" error={wrong.format}>
        <Choice
          options={formatOptions}
          value={form.format}
          onChange={(format) => setForm({ ...form, format })}
        />
      </Field>
      {sink ? null : (
        <Field label="Send the entries that exist, too">
          <Switch checked={fromBeginning} onChange={setFromBeginning} />
        </Field>
      )}
    </FormDialog>
  );
}
