import { expect, test } from "vitest";
import { changedPaths } from "./mask";

test("an update names the fields that changed, as the API spells them", () => {
  const before = {
    name: "a",
    keyLifeMaxSeconds: 5n,
    groups: [{ group: "x" }],
    saml: { signRequests: true },
    etag: "e",
  };
  expect(changedPaths(structuredClone(before), before)).toEqual([]);
  expect(changedPaths({ name: "b", keyLifeMaxSeconds: 5n }, before)).toEqual(["name"]);
  expect(changedPaths({ keyLifeMaxSeconds: 6n, groups: [], saml: { signRequests: false } }, before)).toEqual([
    "key_life_max_seconds",
    "groups",
    "saml.sign_requests",
  ]);
});
