import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { RoleBindingSchema } from "~/gen/corvo/cloud/v1/role_pb";
import { changeOf, holdersOf, placeText } from "./place";

it("says where a role is given", () => {
  expect(placeText(undefined)).toBe("in the whole tenant");
  const scope = { namespace: "ns_1", namespaceName: "production", queues: "" };
  expect(placeText(scope)).toBe("in production");
  expect(placeText({ ...scope, queues: "mail.*" })).toBe("in queues mail.* of production");
  expect(placeText({ namespace: "", namespaceName: "", queues: "mail" })).toBe(
    "in queues mail of all namespaces",
  );
});

it("names each holder once, with all places", () => {
  const binding = (principalId: string, queues = "") =>
    create(RoleBindingSchema, { principalId, principal: `${principalId}@example.com`, scope: { queues } });
  expect(holdersOf([binding("a"), binding("b"), binding("a", "mail")])).toEqual([
    { principal: "a@example.com", places: ["in the whole tenant", "in queues mail of all namespaces"] },
    { principal: "b@example.com", places: ["in the whole tenant"] },
  ]);
});

it("tells what holders of a role gain and lose", () => {
  expect(changeOf(["a", "b"], ["b", "c"])).toEqual({ gained: ["c"], lost: ["a"] });
});
