import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { describe, expect, it, vi } from "vitest";
import { DataError, send } from "./jobs-api";
import { TokenSource } from "./token";

const scope = { tenant: "acme", namespace: "default" };

function source(life = 300_000) {
  let minted = 0;
  const clock = { now: 1_000_000 };
  const tokens = new TokenSource(
    async () => {
      minted += 1;
      return { token: `t${minted}`, expiresAt: timestampFromDate(new Date(clock.now + life)) };
    },
    () => clock.now,
  );
  return { tokens, clock, minted: () => minted };
}

describe("TokenSource", () => {
  it("asks once for many callers and renews before the end", async () => {
    const { tokens, clock, minted } = source();
    expect(await Promise.all([tokens.get(scope), tokens.get(scope)])).toEqual(["t1", "t1"]);
    clock.now += 200_000;
    expect(await tokens.get(scope)).toBe("t1");
    clock.now += 60_000;
    expect(await tokens.get(scope)).toBe("t2");
    expect(minted()).toBe(2);
  });
  it("does not ask in a loop when the clock here is wrong", async () => {
    const { tokens, minted } = source(-3_600_000);
    await tokens.get(scope);
    await tokens.get(scope);
    expect(minted()).toBe(1);
  });
  it("knows what the token allows, without another one", async () => {
    const mint = vi.fn(async () => ({ token: "t", permissions: ["job.retry"], inQueues: [] }));
    const tokens = new TokenSource(mint);
    await tokens.get(scope);
    expect(await tokens.rights(scope)).toEqual({ permissions: ["job.retry"], inQueues: [] });
    expect(mint).toHaveBeenCalledOnce();
  });
  it("keeps tokens of namespaces apart", async () => {
    const { tokens } = source();
    expect(await tokens.get(scope)).not.toBe(await tokens.get({ ...scope, namespace: "other" }));
  });
});

describe("send", () => {
  const answer = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });
  it("replaces a refused token once, and only once", async () => {
    const { tokens } = source();
    const used: (string | null)[] = [];
    const fetcher = vi.fn(async (_: unknown, init?: RequestInit) => {
      used.push(new Headers(init?.headers).get("Authorization"));
      return answer(401, { error: "expired", code: "UNAUTHORIZED" });
    });
    await expect(send(scope, "/queues", {}, tokens, fetcher as typeof fetch)).rejects.toBeInstanceOf(
      DataError,
    );
    expect(used).toEqual(["Bearer t1", "Bearer t2"]);
  });
  it("sends no cookie and escapes the tenant", async () => {
    const { tokens } = source();
    const fetcher = vi.fn(async (_url: unknown, _init?: RequestInit) => answer(200, []));
    await send({ tenant: "a/b", namespace: "n" }, "/queues", {}, tokens, fetcher as typeof fetch);
    expect(fetcher.mock.calls[0]?.[0]).toBe("/t/a%2Fb/api/v1/queues");
    expect(fetcher.mock.calls[0]?.[1]?.credentials).toBe("omit");
  });
  it("carries the server's words and fields", async () => {
    const { tokens } = source();
    const fetcher = async () =>
      answer(400, {
        error: "bad queue name",
        code: "VALIDATION_ERROR",
        fields: [{ field: "queue", message: "too long" }],
      });
    await expect(send(scope, "/enqueue", {}, tokens, fetcher as typeof fetch)).rejects.toMatchObject({
      message: "bad queue name",
      code: "VALIDATION_ERROR",
      fields: { queue: "too long" },
    });
  });
});
