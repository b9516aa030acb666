import type { Option } from "~/components/ui/option";
import { type Trust, TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";

export type Preset = "github" | "gitlab" | "kubernetes";

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
} as const;

export const presetOptions: readonly Option<Preset>[] = [
  { value: "github", label: "GitHub Actions" },
  { value: "gitlab", label: "GitLab CI" },
  { value: "kubernetes", label: "Kubernetes" },
];

/** The conditions of the form: lines of the same claim are values of one condition. */
export function conditionsOf(preset: Preset, owner: string, more: string) {
  const { claim, prefix } = presets[preset];
  const values = new Map<string, string[]>([[claim, [prefix + owner.trim()]]]);
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
