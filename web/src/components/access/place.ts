import type { RoleBinding, Scope } from "~/gen/corvo/cloud/v1/role_pb";

/** Where a role is given, as the end of a sentence. */
export function placeText(scope: Pick<Scope, "namespace" | "namespaceName" | "queues"> | undefined): string {
  const namespace = scope?.namespaceName || scope?.namespace;
  if (scope?.queues) return `in queues ${scope.queues} of ${namespace || "all namespaces"}`;
  return namespace ? `in ${namespace}` : "in the whole tenant";
}

/** Everybody who is given a role, with the places. */
export function holdersOf(bindings: readonly RoleBinding[]): { principal: string; places: string[] }[] {
  const by = new Map<string, { principal: string; places: string[] }>();
  for (const binding of bindings) {
    const holder = by.get(binding.principalId) ?? { principal: binding.principal, places: [] };
    holder.places.push(placeText(binding.scope));
    by.set(binding.principalId, holder);
  }
  return [...by.values()];
}

/** What a change of a role gives to its holders and takes from them. */
export function changeOf(before: readonly string[], after: readonly string[]) {
  return {
    gained: after.filter((name) => !before.includes(name)),
    lost: before.filter((name) => !after.includes(name)),
  };
}
