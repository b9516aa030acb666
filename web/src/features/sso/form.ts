import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import type { SsoConnection } from "~/gen/corvo/cloud/v1/sso_pb";

/** What the set-up asks for. */
export interface SsoForm {
  name: string;
  issuer: string;
  clientId: string;
  /** Empty leaves a stored one as it is. */
  clientSecret: string;
  groupsClaim: string;
  defaultRole: TenantRole;
  mappings: { key: number; group: string; role: TenantRole }[];
}

export function formOf(connection: SsoConnection | undefined): SsoForm {
  return {
    name: connection?.name ?? "Company sign-in",
    issuer: (connection?.staged ?? connection)?.issuer ?? "",
    clientId: (connection?.staged ?? connection)?.clientId ?? "",
    clientSecret: "",
    groupsClaim: (connection?.staged ?? connection)?.groupsClaim || "groups",
    defaultRole: connection?.defaultRole ?? TenantRole.VIEWER,
    mappings: (connection?.groupMappings ?? []).map((mapping, key) => ({
      key,
      group: mapping.group,
      role: mapping.role,
    })),
  };
}

/** The form as fields of a request. */
export function fieldsOf(form: SsoForm) {
  return {
    name: form.name.trim(),
    issuer: form.issuer.trim(),
    clientId: form.clientId.trim(),
    clientSecret: form.clientSecret,
    groupsClaim: form.groupsClaim.trim(),
    defaultRole: form.defaultRole,
    groupMappings: form.mappings
      .filter((mapping) => mapping.group.trim())
      .map((mapping) => ({ group: mapping.group.trim(), role: mapping.role })),
  };
}

/** The paths of an update: the secret only if a new one was typed. */
export function maskOf(form: SsoForm): string[] {
  const paths = ["name", "issuer", "client_id", "groups_claim", "default_role", "group_mappings"];
  return form.clientSecret ? [...paths, "client_secret"] : paths;
}
