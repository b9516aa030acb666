// The same rule as the server's, so that most mistakes show while typing.
const tenantName = /^[a-z][a-z0-9-]{1,38}[a-z0-9]$/;

/** What is wrong with a name of a tenant or namespace, or null. */
export function nameProblem(name: string): string | null {
  if (name === "") return null;
  if (/[A-Z]/.test(name)) return "Use lowercase letters.";
  if (!/^[a-z]/.test(name)) return "Start with a letter from a to z.";
  if (/[^a-z0-9-]/.test(name)) return "Use only letters from a to z, digits and hyphens.";
  if (name.endsWith("-")) return "End with a letter or a digit.";
  if (name.length < 3) return "Use at least 3 characters.";
  if (name.length > 40) return "Use at most 40 characters.";
  return tenantName.test(name) ? null : "Use only letters from a to z, digits and hyphens.";
}

/** A name that would be allowed, made of free text ("Acme Corp." → "acme-corp"). */
export function suggestName(text: string): string {
  return text
    .toLowerCase()
    .normalize("NFKD")
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+/, "")
    .slice(0, 40)
    .replace(/-+$/, "");
}

const queueName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function queueNameProblem(name: string): string | null {
  if (name === "" || queueName.test(name)) return null;
  return "Start with a letter or digit, then use letters, digits, dots, underscores or hyphens. 128 characters at most.";
}
