import type { Option } from "~/components/ui/option";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";

/** What narrows a key, or the keys of a trust, as a form has it. */
export interface Limits {
  /** Names or ids; none: every namespace. */
  namespaces: string[];
  queues: string;
  cidrs: string;
  /** Everything that the owner can do; else only the permissions that follow. */
  all: boolean;
  permissions: string[];
}

export const unlimited: Limits = { namespaces: [], queues: "", cidrs: "", all: true, permissions: [] };

/** Of a key, or of a trust for its keys. */
export function limitsOf(one: Pick<ApiKey, "namespaceIds" | "queues" | "cidrs" | "permissions">): Limits {
  return {
    namespaces: one.namespaceIds,
    queues: one.queues.join(", "),
    cidrs: one.cidrs.join(", "),
    all: one.permissions.length === 0,
    permissions: one.permissions,
  };
}

/** The namespaces to choose from. One that was deleted stays a limit until somebody takes it out. */
export function namespaceChoices(
  namespaces: readonly { id: string; name: string }[],
  limited: readonly string[],
): Option[] {
  const gone = limited.filter((id) => !namespaces.some((known) => known.id === id));
  return [
    ...namespaces.map(({ id, name }) => ({ value: id, label: name })),
    ...gone.map((id) => ({ value: id, label: "a deleted namespace" })),
  ];
}

/** As a request has them. */
export function fieldsOf(limits: Limits) {
  return {
    namespaces: limits.namespaces,
    queues: listOf(limits.queues),
    cidrs: listOf(limits.cidrs),
    permissions: limits.all ? [] : limits.permissions,
  };
}

/** The fields of a request in which two limits differ, whatever the order of their values. */
export function changedFields(before: Limits, after: Limits): (keyof ReturnType<typeof fieldsOf>)[] {
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  const text = (values: readonly string[]) => [...values].sort().join("\n");
  return (["namespaces", "queues", "cidrs", "permissions"] as const).filter(
    (field) => text(was[field]) !== text(is[field]),
  );
}

/** Why limits can't be saved: none chosen would be read as all. */
export function missingOf(limits: Limits): string | undefined {
  return limits.all || limits.permissions.length > 0 ? undefined : "Choose at least one permission.";
}

/** Words that were typed apart by commas, spaces or lines. */
function listOf(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}
