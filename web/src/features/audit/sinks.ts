import type { Option } from "~/components/ui/option";
import { AuditFormat, type AuditSink } from "~/gen/corvo/cloud/v1/audit_pb";

/** Where a sink is, in one line. */
export function placeOf(sink: AuditSink): string {
  const { target } = sink;
  switch (target.case) {
    case "https":
      return target.value.url;
    case "s3":
      return `s3://${target.value.bucket}/${target.value.prefix}`;
    case "syslog":
      return `${target.value.host}:${target.value.port} (syslog)`;
  }
  return "–";
}

export type SinkKind = "https" | "s3" | "syslog";

export const kindOptions: readonly Option<SinkKind>[] = [
  { value: "https", label: "HTTPS" },
  { value: "s3", label: "S3" },
  { value: "syslog", label: "Syslog over TLS" },
];

export const formatOptions: readonly Option[] = [
  { value: String(AuditFormat.NATIVE), label: "JSON lines" },
  { value: String(AuditFormat.OCSF), label: "OCSF" },
];

/** What the form holds of a target: texts. The last three are secrets, which the service never returns. */
const noTarget = {
  url: "",
  endpoint: "",
  region: "",
  bucket: "",
  prefix: "",
  accessKeyId: "",
  host: "",
  port: "6514",
  caPem: "",
  signingSecret: "",
  authorization: "",
  secretAccessKey: "",
};

export type SinkTexts = typeof noTarget;
export interface SinkForm {
  name: string;
  kind: SinkKind;
  format: string;
  texts: SinkTexts;
}

/** The form of a sink, or of a new one. */
export function formOf(sink?: AuditSink): SinkForm {
  const form: SinkForm = {
    name: sink?.name ?? "",
    kind: sink?.target.case ?? "https",
    format: String(sink?.format || AuditFormat.NATIVE),
    texts: { ...noTarget },
  };
  if (!sink) return form;
  const { target } = sink;
  switch (target.case) {
    case "https":
      form.texts.url = target.value.url;
      break;
    case "s3": {
      const { endpoint, region, bucket, prefix, accessKeyId } = target.value;
      Object.assign(form.texts, { endpoint, region, bucket, prefix, accessKeyId });
      break;
    }
    case "syslog": {
      const { host, port, caPem } = target.value;
      Object.assign(form.texts, { host, port: String(port), caPem });
    }
  }
  return form;
}

/** The target of a request. */
export function targetOf({ kind, texts }: SinkForm) {
  const of = (text: string) => text.trim();
  switch (kind) {
    case "https": {
      const { url, signingSecret, authorization } = texts;
      return { case: kind, value: { url: of(url), signingSecret, authorization } } as const;
    }
    case "s3": {
      const { endpoint, region, bucket, prefix, accessKeyId, secretAccessKey } = texts;
      const value = {
        endpoint: of(endpoint),
        region: of(region),
        bucket: of(bucket),
        prefix: of(prefix),
        accessKeyId: of(accessKeyId),
        secretAccessKey,
      };
      return { case: kind, value } as const;
    }
    case "syslog": {
      const value = { host: of(texts.host), port: Number(texts.port) || 0, caPem: of(texts.caPem) };
      return { case: kind, value } as const;
    }
  }
}

/** Whether the form's target is another one than the sink's, or has new secrets. */
export function isMoved(form: SinkForm, sink: AuditSink): boolean {
  return JSON.stringify(targetOf(form)) !== JSON.stringify(targetOf(formOf(sink)));
}

/** The fields of a sink that the form changes, as a mask names them. */
export function changedPaths(form: SinkForm, sink: AuditSink): string[] {
  const was = formOf(sink);
  return [
    form.name.trim() === was.name ? "" : "name",
    form.format === was.format ? "" : "format",
    isMoved(form, sink) ? form.kind : "",
  ].filter(Boolean);
}

/** What is missing before the form can be sent. */
export function missingOf(form: SinkForm, sink?: AuditSink): string | undefined {
  const { kind, name, texts } = form;
  if (!name.trim()) return "Enter a name.";
  if (sink && changedPaths(form, sink).length === 0) return "Nothing is changed.";
  if (sink && !isMoved(form, sink)) return undefined;
  // Secrets of the old target are not sent to a new address.
  const again = sink ? ": a changed target needs it again" : "";
  switch (kind) {
    case "https":
      if (!texts.url.trim()) return "Enter the URL.";
      return texts.signingSecret ? undefined : `Enter the signing secret${again}.`;
    case "s3":
      if (!texts.endpoint.trim() || !texts.region.trim() || !texts.bucket.trim() || !texts.accessKeyId.trim())
        return "Enter endpoint, region, bucket and access key ID.";
      return texts.secretAccessKey ? undefined : `Enter the secret access key${again}.`;
    case "syslog":
      return texts.host.trim() ? undefined : "Enter the host.";
  }
}
