import { expect, test } from "vitest";
import { TrustProvider } from "~/gen/corvo/cloud/v1/exchange_pb";
import { conditionsOf, usageOf } from "./trusts";

test("lines of the same claim are alternatives, and values keep their equals signs", () => {
  expect(
    conditionsOf("github", " acme/web ", "ref=refs/heads/main\n\n ref = refs/tags/v*\nenvironment=a=b\nodd"),
  ).toEqual([
    { claim: "repository", values: ["acme/web"] },
    { claim: "ref", values: ["refs/heads/main", "refs/tags/v*"] },
    { claim: "environment", values: ["a=b"] },
    { claim: "odd", values: [""] },
  ]);
  expect(conditionsOf("kubernetes", "prod:web", "")).toEqual([
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
