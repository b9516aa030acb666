// Which namespace of a tenant was looked at last: a convenience, never a decision.

export function recentNamespace(tenant: string): string | null {
  try {
    return localStorage.getItem(`corvo.namespace.${tenant}`);
  } catch {
    return null;
  }
}

export function recentTenant(): string | null {
  try {
    return localStorage.getItem("corvo.tenant");
  } catch {
    return null;
  }
}

export function rememberScope(tenant: string, namespace: string): void {
  try {
    localStorage.setItem("corvo.tenant", tenant);
    localStorage.setItem(`corvo.namespace.${tenant}`, namespace);
  } catch {
    // Storage may be forbidden; then the first namespace is as good.
  }
}
