/** What the confirmation of a sign-up showed once. It lives as long as the page. */
export interface FreshKeys {
  tenant: string;
  namespace: string;
  tenantUrl: string;
  apiKey: string;
  /** Management key, for Terraform and the CLI. */
  token: string;
}

let held: FreshKeys | null = null;

/** Keeps the keys in memory, for the snippets of the page that follows. */
export function holdKeys(keys: FreshKeys | null): void {
  held = keys;
}

export function heldKeys(tenant: string, namespace: string): FreshKeys | null {
  return held?.tenant === tenant && held.namespace === namespace ? held : null;
}
