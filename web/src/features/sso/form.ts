import { type SsoConnection, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { changedPaths } from "~/lib/mask";

/** What the set-up asks for. */
export interface SsoForm {
  type: SsoType;
  name: string;
  issuer: string;
  clientId: string;
  /** Empty leaves a stored one as it is. */
  clientSecret: string;
  saml: SamlForm;
  groupsClaim: string;
  /** A role's name; empty: they can't sign in. */
  defaultRole: string;
  mappings: { key: number; group: string; role: string }[];
}

/** The part of a SAML connection. */
export interface SamlForm {
  /** The provider's metadata, by address or as a document; both empty leave it as it is. */
  metadataUrl: string;
  metadataXml: string;
  signRequests: boolean;
  wantEncrypted: boolean;
  allowIdpInitiated: boolean;
  emailAttribute: string;
  nameAttribute: string;
}

export function formOf(connection: SsoConnection | undefined, type = SsoType.OIDC): SsoForm {
  const settings = connection?.staged ?? connection;
  const saml = settings?.saml;
  return {
    type: connection?.type ?? type,
    name: connection?.name ?? "Company sign-in",
    issuer: settings?.issuer ?? "",
    clientId: settings?.clientId ?? "",
    clientSecret: "",
    saml: {
      metadataUrl: "",
      metadataXml: "",
      signRequests: saml?.signRequests ?? true,
      wantEncrypted: saml?.wantEncrypted ?? false,
      allowIdpInitiated: saml?.allowIdpInitiated ?? false,
      emailAttribute: saml?.emailAttribute ?? "",
      nameAttribute: saml?.nameAttribute ?? "",
    },
    groupsClaim: settings?.groupsClaim || "groups",
    defaultRole: connection?.defaultRole ?? "viewer",
    mappings: (connection?.groupMappings ?? []).map((mapping, key) => ({
      key,
      group: mapping.group,
      role: mapping.role,
    })),
  };
}

/** The form as fields of a request: of its type alone. */
export function fieldsOf(form: SsoForm) {
  return {
    name: form.name.trim(),
    ...(form.type === SsoType.SAML ? { saml: samlOf(form.saml) } : oidcOf(form)),
    groupsClaim: form.groupsClaim.trim(),
    defaultRole: form.defaultRole,
    groupMappings: form.mappings
      .filter((mapping) => mapping.group.trim())
      .map((mapping) => ({ group: mapping.group.trim(), role: mapping.role })),
  };
}

function oidcOf(form: SsoForm) {
  return { issuer: form.issuer.trim(), clientId: form.clientId.trim(), clientSecret: form.clientSecret };
}

function samlOf(saml: SamlForm) {
  return {
    ...saml,
    metadataUrl: saml.metadataUrl.trim(),
    metadataXml: saml.metadataXml.trim(),
    emailAttribute: saml.emailAttribute.trim(),
    nameAttribute: saml.nameAttribute.trim(),
  };
}

/** The paths of an update: what is different from the form as it began. */
export function maskOf(form: SsoForm, began: SsoForm): string[] {
  return changedPaths(fieldsOf(form), fieldsOf(began));
}

/** How far a connection is, in a word or two. */
export function statusOf({
  enabled,
  staged,
  lastTest,
}: Pick<SsoConnection, "enabled" | "staged" | "lastTest">): {
  word: string;
  tone: "ok" | "warn" | "neutral";
} {
  if (enabled) return staged ? { word: "change to test", tone: "warn" } : { word: "on", tone: "ok" };
  return { word: lastTest?.succeeded ? "off" : "not tested", tone: "neutral" };
}
