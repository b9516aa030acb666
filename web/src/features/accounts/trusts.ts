import { changedFields, type Limits, limitsOf, unlimited } from "~/components/access/limits";
import type { Option } from "~/components/ui/option";
import { type Trust, TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";

export type Preset = "github" | "gitlab" | "kubernetes" | "other";

/** What the form asks for: the one claim that says whose tokens they are, and examples. */
export const presets = {
  github: {
    provider: TrustProvider.GITHUB,
    label: "Repository",
    what: "repository",
    claim: "repository",
    prefix: "",
    placeholder: "acme/web",
    conditions: "ref=refs/heads/main",
    issuer: "https://token.actions.githubusercontent.com",
  },
  gitlab: {
    provider: TrustProvider.GITLAB,
    label: "Project",
    what: "project",
    claim: "project_path",
    prefix: "",
    placeholder: "acme/web",
    conditions: "ref_protected=true",
    issuer: "https://gitlab.com",
  },
  kubernetes: {
    provider: TrustProvider.KUBERNETES,
    label: "Service account",
    what: "service account",
    claim: "sub",
    prefix: "system:serviceaccount:",
    placeholder: "prod:web",
    conditions: "",
    issuer: "https://kubernetes.default.svc.cluster.local",
  },
  other: {
    provider: TrustProvider.OTHER,
    label: "Subject",
    what: "subject",
    claim: "sub",
    prefix: "",
    placeholder: "organization:acme:project:web",
    conditions: "",
    issuer: "https://issuer.example.com",
  },
} as const;

export const presetOptions: readonly Option<Preset>[] = [
  { value: "github", label: "GitHub Actions" },
  { value: "gitlab", label: "GitLab CI" },
  { value: "kubernetes", label: "Kubernetes" },
  { value: "other", label: "Another issuer" },
];

/** A trust as the form has it. */
export interface TrustForm {
  name: string;
  preset: Preset;
  /** Whose tokens they are, by the preset's claim. */
  owner: string;
  /** Other conditions, one claim=value per line. */
  more: string;
  issuer: string;
  jwks: string;
  audience: string;
  /** Seconds. */
  life: string;
  reuse: boolean;
  limits: Limits;
}

const newForm: TrustForm = {
  name: "",
  preset: "github",
  owner: "",
  more: "",
  issuer: "",
  jwks: "",
  audience: "",
  life: "900",
  reuse: false,
  limits: unlimited,
};

export function formOf(trust: Trust | undefined): TrustForm {
  if (!trust) return newForm;
  const preset =
    presetOptions.find(({ value }) => presets[value].provider === trust.provider)?.value ?? "other";
  const { claim, prefix } = presets[preset];
  const of = trust.conditions.find((condition) => condition.claim === claim);
  const [value = ""] = of?.values ?? [];
  // The form has room for one; several stay lines.
  const single = of?.values.length === 1 && value.startsWith(prefix);
  return {
    name: trust.name,
    preset,
    owner: single ? value.slice(prefix.length) : "",
    more: trust.conditions
      .filter((condition) => !single || condition !== of)
      .flatMap((condition) => condition.values.map((text) => `${condition.claim}=${text}`))
      .join("\n"),
    issuer: trust.issuer,
    jwks: trust.jwks,
    audience: trust.audience,
    life: String(trust.keyLifeSeconds),
    reuse: trust.allowReuse,
    limits: limitsOf(trust),
  };
}

/** What a change asks for: the fields in which two forms differ. */
export function maskOf(before: TrustForm, after: TrustForm): string[] {
  const conditions = (form: TrustForm) => JSON.stringify(conditionsOf(form));
  return [
    ...(after.name.trim() === before.name ? [] : ["name"]),
    ...(conditions(after) === conditions(before) ? [] : ["conditions"]),
    ...(after.jwks === before.jwks ? [] : ["jwks"]),
    ...(after.audience.trim() === before.audience ? [] : ["audience"]),
    ...(after.life === before.life ? [] : ["key_life_seconds"]),
    ...(after.reuse === before.reuse ? [] : ["allow_reuse"]),
    ...changedFields(before.limits, after.limits),
  ];
}

/** The conditions of the form: lines of the same claim are values of one condition. */
export function conditionsOf({ preset, owner, more }: Pick<TrustForm, "preset" | "owner" | "more">) {
  const { claim, prefix } = presets[preset];
  const values = new Map<string, string[]>(owner.trim() ? [[claim, [prefix + owner.trim()]]] : []);
  for (const line of more.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    const name = at < 0 ? line.trim() : line.slice(0, at).trim();
    const value = at < 0 ? "" : line.slice(at + 1).trim();
    values.set(name, [...(values.get(name) ?? []), value]);
  }
  return [...values].map(([name, list]) => ({ claim: name, values: list }));
}

/** What a job or pod of a trust does to get its key. */
export function usageOf(trust: Pick<Trust, "provider" | "audience">, access: Where): string {
  const { tenant, tenantUrl, endpoint } = access;
  const exchange = "export CORVO_API_KEY=$(corvo token exchange)";
  switch (trust.provider) {
    case TrustProvider.GITHUB:
      return `permissions:
  id-token: write
  contents: read
env:
  CORVO_ENDPOINT: ${endpoint}
  CORVO_TENANT: ${tenant}
  CORVO_URL: ${tenantUrl}
steps:
  - name: Get a key
    run: |
      key=$(corvo token exchange)
      echo "::add-mask::$key"
      echo "CORVO_API_KEY=$key" >> "$GITHUB_ENV"
  - run: corvo enqueue deploys '{"commit":"\${{ github.sha }}"}'`;
    case TrustProvider.GITLAB:
      return `id_tokens:
  CORVO_ID_TOKEN:
    aud: ${trust.audience}
variables:
  CORVO_ENDPOINT: ${endpoint}
  CORVO_TENANT: ${tenant}
  CORVO_URL: ${tenantUrl}
script:
  - ${exchange}
  - corvo enqueue deploys "{\\"commit\\":\\"$CI_COMMIT_SHA\\"}"`;
    case TrustProvider.KUBERNETES:
      return `# in the container
env:
  - {name: CORVO_ENDPOINT, value: "${endpoint}"}
  - {name: CORVO_TENANT, value: "${tenant}"}
  - {name: CORVO_URL, value: "${tenantUrl}"}
command: [sh, -c, "${exchange} && corvo enqueue reports"]
volumeMounts:
  - {name: corvo, mountPath: /var/run/secrets/corvo, readOnly: true}
# in the pod
volumes:
  - name: corvo
    projected:
      sources:
        - serviceAccountToken: {path: token, audience: "${trust.audience}", expirationSeconds: 600}`;
    default:
      return `export CORVO_ENDPOINT=${endpoint} CORVO_TENANT=${tenant} CORVO_URL=${tenantUrl}
# CORVO_ID_TOKEN is a token for ${trust.audience}
${exchange}`;
  }
}

interface Where {
  tenant: string;
  tenantUrl: string;
  endpoint: string;
}
