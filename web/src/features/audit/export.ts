import { admin } from "~/data/admin";
import { AuditFormat } from "~/gen/corvo/cloud/v1/audit_pb";

const pageSize = 1000;

/** Writes the whole log into a file of the browser, page by page. */
export async function exportAudit(tenant: string, format: AuditFormat): Promise<number> {
  const parts: string[] = [];
  let lines = 0;
  for (let pageToken = ""; ; ) {
    const page = await admin.audit.exportAuditLog({ tenant, format, pageSize, pageToken });
    parts.push(...page.lines.map((line) => `${line}\n`));
    lines += page.lines.length;
    if (!page.nextPageToken) break;
    pageToken = page.nextPageToken;
  }
  save(parts, fileName(tenant, format, new Date()));
  return lines;
}

/** The name says whose log it is, and of when. */
export function fileName(tenant: string, format: AuditFormat, now: Date): string {
  const kind = format === AuditFormat.OCSF ? "-ocsf" : "";
  return `audit-${tenant}-${now.toISOString().slice(0, 10)}${kind}.ndjson`;
}

function save(parts: string[], name: string) {
  const url = URL.createObjectURL(new Blob(parts, { type: "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
