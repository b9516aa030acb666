import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ApiKeySchema } from "~/gen/corvo/cloud/v1/apikey_pb";
import { changedFields, fieldsOf, limitsOf, missingOf, namespaceChoices, unlimited } from "./limits";

const key = create(ApiKeySchema, { namespaceIds: ["ns_1"], queues: ["mail.*"], permissions: ["job.read"] });

it("only what has changed is sent, and the order of values is no change", () => {
  const before = limitsOf(create(ApiKeySchema, { queues: ["a", "b"] }));
  expect(changedFields(before, { ...before, queues: " b\na " })).toEqual([]);
  expect(changedFields(before, { ...before, queues: "b", cidrs: "203.0.113.0/24" })).toEqual([
    "queues",
    "cidrs",
  ]);
});

it("a key that may do all its owner may has no permissions of its own", () => {
  expect(fieldsOf({ ...limitsOf(key), all: true }).permissions).toEqual([]);
  expect(changedFields(limitsOf(key), { ...limitsOf(key), all: true })).toEqual(["permissions"]);
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

it("a namespace that is gone can be taken out of the limits", () => {
  expect(namespaceChoices([{ id: "ns_1", name: "production" }], ["ns_1", "ns_2"])).toEqual([
    { value: "ns_1", label: "production" },
    { value: "ns_2", label: "a deleted namespace" },
  ]);
});
