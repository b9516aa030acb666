import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { TrustProvider, TrustSchema } from "~/gen/corvo/cloud/v1/exchange_pb";
import { conditionsOf, formOf, maskOf, usageOf } from "./trusts";

test("lines of the same claim are alternatives, and values keep their equals signs", () => {
  expect(
    conditionsOf({
      preset: "github",
      owner: " acme/web ",
      more: "ref=refs/heads/main\n\n ref = refs/tags/v*\nenvironment=a=b\nodd",
    }),
  ).toEqual([
    { claim: "repository", values: ["acme/web"] },
    { claim: "ref", values: ["refs/heads/main", "refs/tags/v*"] },
    { claim: "environment", values: ["a=b"] },
    { claim: "odd", values: [""] },
  ]);
  expect(conditionsOf({ preset: "kubernetes", owner: "prod:web", more: "" })).toEqual([
    { claim: "sub", values: ["system:serviceaccount:prod:web"] },
  ]);
});

test("every provider's lines exchange the token, and name service and audience", () => {
  const where = { tenant: "acme", tenantUrl: "https://corvo.test/t/acme", endpoint: "https://corvo.test" };
  for (const provider of [1, 2, 3, 4] satisfies TrustProvider[]) {
    const lines = usageOf({ provider, audience: "https://corvo.test/acme" }, where);
    expect(lines).toContain("$(corvo token exchange)");
    for (const value of Object.values(where)) expect(lines).toContain(value);
    // GitHub's is asked for by the command itself.
    if (provider !== TrustProvider.GITHUB) expect(lines).toContain("https://corvo.test/acme");
  }
});

test("the form of a trust has all its conditions, and nothing differs before a change", () => {
  for (const [provider, conditions, owner, more] of [
    [
      TrustProvider.GITHUB,
      { ref: ["refs/heads/main"], repository: ["acme/web"] },
      "acme/web",
      "ref=refs/heads/main",
    ],
    [
      TrustProvider.GITHUB,
      { repository: ["acme/web", "acme/api"] },
      "",
      "repository=acme/web\nrepository=acme/api",
    ],
    [TrustProvider.GITHUB, { repository_owner_id: ["7"] }, "", "repository_owner_id=7"],
    [TrustProvider.KUBERNETES, { sub: ["system:serviceaccount:prod:web"] }, "prod:web", ""],
    [TrustProvider.KUBERNETES, { sub: ["odd"] }, "", "sub=odd"],
    [TrustProvider.OTHER, { sub: ["organization:acme:*"] }, "organization:acme:*", ""],
  ] as const) {
    const trust = create(TrustSchema, {
      provider,
      conditions: Object.entries(conditions).map(([claim, values]) => ({ claim, values: [...values] })),
    });
    const form = formOf(trust);
    expect(form).toMatchObject({ owner, more });
    expect(conditionsOf(form)).toHaveLength(trust.conditions.length);
    expect(conditionsOf(form)).toEqual(
      expect.arrayContaining(trust.conditions.map(({ claim, values }) => ({ claim, values }))),
    );
    expect(maskOf(form, { ...form, more: `${form.more}\n` })).toEqual([]);
  }
});

test("a change asks for what differs, so that a name alone revokes no keys", () => {
  const form = formOf(create(TrustSchema, { name: "web", keyLifeSeconds: 900n, namespaceIds: ["ns_1"] }));
  expect(maskOf(form, { ...form, name: " site " })).toEqual(["name"]);
  expect(
    maskOf(form, {
      ...form,
      owner: "acme/web",
      jwks: "{}",
      audience: "a",
      life: "300",
      reuse: true,
      limits: { ...form.limits, namespaces: [] },
    }),
  ).toEqual(["conditions", "jwks", "audience", "key_life_seconds", "allow_reuse", "namespaces"]);
});
