import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { control } from "./control";

/** One namespace of one tenant, by name. */
export interface Scope {
  tenant: string;
  namespace: string;
}

/** What a token allows, by names of permissions. */
export interface MintedRights {
  /** In the whole namespace. */
  permissions: readonly string[];
  /** In queues that match one of the patterns. */
  inQueues: readonly { permissions: readonly string[]; queues: readonly string[] }[];
}

interface Minted {
  token: string;
  rights: MintedRights;
  /** Milliseconds of this machine's clock from which a new token is asked for. */
  renewAt: number;
}

export type Mint = (
  scope: Scope,
) => Promise<{ token: string; expiresAt?: Timestamp | undefined } & Partial<MintedRights>>;

const EARLY = 45_000;

/**
 * Tokens for the jobs of namespaces. They are held in memory only, renewed before
 * they end, and asked for once however many callers wait.
 */
export class TokenSource {
  #mint: Mint;
  #now: () => number;
  #tokens = new Map<string, Minted>();
  #asking = new Map<string, Promise<Minted>>();

  constructor(mint: Mint, now: () => number = Date.now) {
    this.#mint = mint;
    this.#now = now;
  }

  async get(scope: Scope): Promise<string> {
    return (await this.#minted(scope)).token;
  }

  /** What the token of a namespace allows. */
  async rights(scope: Scope): Promise<MintedRights> {
    return (await this.#minted(scope)).rights;
  }

  async #minted(scope: Scope): Promise<Minted> {
    const key = `${scope.tenant}/${scope.namespace}`;
    const held = this.#tokens.get(key);
    if (held && this.#now() < held.renewAt) return held;
    const asking = this.#asking.get(key);
    if (asking) return asking;
    const promise = this.#ask(key, scope).finally(() => this.#asking.delete(key));
    this.#asking.set(key, promise);
    return promise;
  }

  /** Forgets a token that was refused; a newer one stays. */
  drop(scope: Scope, refused: string): void {
    const key = `${scope.tenant}/${scope.namespace}`;
    if (this.#tokens.get(key)?.token === refused) this.#tokens.delete(key);
  }

  clear(): void {
    this.#tokens.clear();
  }

  async #ask(key: string, scope: Scope): Promise<Minted> {
    const answer = await this.#mint(scope);
    // A clock that is wrong here must not make us renew in a loop, hence the floor.
    const life = answer.expiresAt ? timestampDate(answer.expiresAt).getTime() - this.#now() : 5 * 60_000;
    const { token, permissions = [], inQueues = [] } = answer;
    const renewAt = this.#now() + Math.max(20_000, life - EARLY);
    const minted = { token, rights: { permissions, inQueues }, renewAt };
    this.#tokens.set(key, minted);
    return minted;
  }
}

export const tokens = new TokenSource((scope) => control.auth.mintToken(scope));
