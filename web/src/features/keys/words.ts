import { type ApiKey, KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import type { EffectiveGrant } from "~/gen/corvo/cloud/v1/role_pb";

export const kindNames: Record<KeyKind, string> = {
  [KeyKind.UNSPECIFIED]: "unknown",
  [KeyKind.JOBS]: "jobs",
  [KeyKind.MANAGEMENT]: "management",
  [KeyKind.PERSONAL]: "personal",
  [KeyKind.TEMPORARY]: "temporary",
};

/** Names of namespaces by their ids. */
export type NamespaceNames = ReadonlyMap<string, string>;

/** A place in words: in all namespaces; in production; in production, queues email.*. */
export function placeOf(
  { namespaceIds, queues }: Pick<EffectiveGrant, "namespaceIds" | "queues">,
  names: NamespaceNames,
): string {
  const where =
    namespaceIds.length === 0
      ? "in all namespaces"
      : `in ${namespaceIds.map((id) => names.get(id) ?? "a deleted namespace").join(", ")}`;
  return queues.length === 0 ? where : `${where}, queues ${queues.join(", ")}`;
}

// What a line of the table has room for.
const SHOWN = 2;

/** What of its owner's rights a key has, in a line. A list doesn't say what they come to. */
export function limitsOf(
  key: Pick<ApiKey, "permissions" | "namespaceIds" | "queues">,
  names: NamespaceNames,
): string {
  return `${key.permissions.length > 0 ? some(key.permissions) : "what its owner can"} ${placeOf(key, names)}`;
}

function some(permissions: readonly string[]): string {
  const rest = permissions.length - SHOWN;
  return rest > 1 ? `${permissions.slice(0, SHOWN).join(", ")} and ${rest} more` : permissions.join(", ");
}
