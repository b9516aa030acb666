import type { Option } from "~/components/ui/option";
import { TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";

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
