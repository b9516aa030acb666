// An identity provider that is not ours: oidc-provider, in a process of its own.
import { fileURLToPath } from "node:url";
import { freePort, Proc } from "./process.ts";

export class IdentityProvider {
  readonly clientId = "corvo";
  readonly clientSecret = "a-secret-of-the-identity-provider";

  private constructor(
    private readonly proc: Proc,
    readonly issuer: string,
  ) {}

  /** start runs a provider that sends people back to the tenants of one service only. */
  static async start(service: string): Promise<IdentityProvider> {
    const port = await freePort();
    const program = fileURLToPath(new URL("./oidc-server.mjs", import.meta.url));
    const issuer = `http://127.0.0.1:${port}`;
    const proc = Proc.start("oidc-provider", process.execPath, [program], {
      env: { ...process.env, PORT: String(port), SERVICE: service },
    });
    await proc.waitFor("its discovery document", async () =>
      (await fetch(`${issuer}/.well-known/openid-configuration`)).ok ? true : undefined,
    );
    return new IdentityProvider(proc, issuer);
  }

  /** setGroups changes a user's groups at the provider. */
  async setGroups(login: string, groups: string[]): Promise<void> {
    const res = await fetch(`${this.issuer}/test/groups/${login}`, { method: "PUT", body: JSON.stringify(groups) });
    if (!res.ok) throw new Error(`set groups: ${res.status}`);
  }

  async end(): Promise<void> {
    await this.proc.end();
  }
}
