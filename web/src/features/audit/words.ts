import type { AuditEvent } from "~/gen/corvo/cloud/v1/audit_pb";

/** Kinds of actions to narrow the log by: what an action begins with. */
export const actionGroups = [
  { value: "", label: "All actions" },
  { value: "namespace", label: "Namespaces" },
  { value: "key", label: "API keys" },
  { value: "member", label: "Members" },
  { value: "invitation", label: "Invitations" },
  { value: "sso", label: "Single sign-on" },
  { value: "session", label: "Sign-ins" },
  { value: "tenant", label: "Tenant" },
] as const;

/** A change of one field as text. */
export interface FieldChange {
  field: string;
  before: string;
  after: string;
}

/** The fields that an event changed, with their values before and after. */
export function changesOf(event: AuditEvent): FieldChange[] {
  return Object.entries(event.changes ?? {}).map(([field, change]) => {
    const { before, after } = (change ?? {}) as { before?: unknown; after?: unknown };
    return { field: field.replaceAll("_", " "), before: text(before), after: text(after) };
  });
}

function text(value: unknown): string {
  if (value === undefined || value === null || value === "") return "–";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(text).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
