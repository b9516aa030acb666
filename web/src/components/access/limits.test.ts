import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ApiKeySchema } from "~/gen/corvo/cloud/v1/apikey_pb";
import { changedFields, fieldsOf, limitsOfKey, missingOf, unlimited } from "./limits";

const key = create(ApiKeySchema, { namespaceIds: ["ns_1"], queues: ["mail.*"], permissions: ["job.read"] });

it("only what has changed is sent, and the order of values is no change", () => {
  const before = limitsOfKey(create(ApiKeySchema, { queues: ["a", "b"] }));
  expect(changedFields(before, { ...before, queues: " b\na " })).toEqual([]);
  expect(changedFields(before, { ...before, queues: "b", cidrs: "203.0.113.0/24" })).toEqual([
    "queues",
    "cidrs",
  ]);
});

it("a key that may do all its owner may has no permissions of its own", () => {
  expect(fieldsOf({ ...limitsOfKey(key), all: true }).permissions).toEqual([]);
  expect(changedFields(limitsOfKey(key), { ...limitsOfKey(key), all: true })).toEqual(["permissions"]);
});

it("no permission chosen is not taken for all of them", () => {
  expect(missingOf(unlimited)).toBeUndefined();
  expect(missingOf({ ...unlimited, all: false })).toBe("Choose at least one permission.");
});

it("takes lists as people type them", () => {
  expect(fieldsOf({ ...unlimited, queues: " mail, x.*\n10.0.0.0/8 ", cidrs: "  " })).toMatchObject({
    queues: ["mail", "x.*", "10.0.0.0/8"],
    cidrs: [],
  });
});
