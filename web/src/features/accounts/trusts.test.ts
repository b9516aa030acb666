import { expect, test } from "vitest";
import { conditionsOf } from "./trusts";

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
