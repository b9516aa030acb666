import type { AuditSink } from "~/gen/corvo/cloud/v1/audit_pb";

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
