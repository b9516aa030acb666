// An issuer of tokens of CI jobs that is not ours: GitHub's, as far as a trust can tell.
import { generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export class TokenIssuer {
  private constructor(
    private readonly server: Server,
    private readonly key: ReturnType<typeof newKey>,
    readonly issuer: string,
  ) {}

  static async start(): Promise<TokenIssuer> {
    const key = newKey();
    let issuer = "";
    const server = createServer((request, response) => {
      const answer = request.url?.startsWith("/.well-known/openid-configuration") ? { issuer, jwks_uri: `${issuer}/jwks` } : { keys: [key.jwk] };
      response.setHeader("Content-Type", "application/json").end(JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return new TokenIssuer(server, key, issuer);
  }

  /** A token of a job, for some minutes; each counts once. */
  token(audience: string, claims: object): string {
    const now = Math.floor(Date.now() / 1000);
    const parts = [
      { alg: "RS256", typ: "JWT", kid: this.key.jwk.kid },
      { iss: this.issuer, aud: audience, sub: "repo:acme/web:ref:refs/heads/main", iat: now, nbf: now, exp: now + 300, jti: randomUUID(), ...claims },
    ].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
    const signed = parts.join(".");
    return `${signed}.${sign("sha256", Buffer.from(signed), this.key.privateKey).toString("base64url")}`;
  }

  async end(): Promise<void> {
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }
}

function newKey() {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" } };
}
