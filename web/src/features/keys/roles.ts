import type { Option } from "~/components/ui/select";
import { roleNames } from "~/data/access";
import { NamespaceRole } from "~/gen/corvo/cloud/v1/access_pb";
import { type ApiKey, KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";

export const namespaceRoleNames: Record<NamespaceRole, string> = {
  [NamespaceRole.UNSPECIFIED]: "none",
  [NamespaceRole.ADMIN]: "admin",
  [NamespaceRole.OPERATOR]: "operator",
  [NamespaceRole.PRODUCER]: "producer",
  [NamespaceRole.WORKER]: "worker",
  [NamespaceRole.VIEWER]: "viewer",
};

/** What a key for jobs may do, in common combinations. */
export const presets = {
  app: {
    label: "Producer and worker",
    description: "Enqueues and runs jobs. Enough for most applications.",
    roles: [NamespaceRole.PRODUCER, NamespaceRole.WORKER],
  },
  producer: {
    label: "Producer",
    description: "Enqueues jobs.",
    roles: [NamespaceRole.PRODUCER],
  },
  worker: {
    label: "Worker",
    description: "Fetches jobs and reports their results.",
    roles: [NamespaceRole.WORKER],
  },
  operator: {
    label: "Operator",
    description: "Also pauses queues, retries, cancels and deletes jobs.",
    roles: [NamespaceRole.OPERATOR],
  },
  viewer: {
    label: "Viewer",
    description: "Reads jobs and queues.",
    roles: [NamespaceRole.VIEWER],
  },
} as const;

export type Preset = keyof typeof presets;

export const presetOptions: Option<Preset>[] = (Object.keys(presets) as Preset[]).map((value) => ({
  value,
  label: presets[value].label,
  description: presets[value].description,
}));

/** What a key may do, in a few words. */
export function rolesOf(key: ApiKey): string {
  if (key.kind === KeyKind.MANAGEMENT) return `tenant ${roleNames[key.tenantRole].toLowerCase()}`;
  return key.roles.map((role) => namespaceRoleNames[role]).join(", ");
}
