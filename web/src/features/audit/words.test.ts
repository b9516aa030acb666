import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AuditEventSchema } from "~/gen/corvo/cloud/v1/audit_pb";
import { changesOf } from "./words";

test("changes are words: no JSON for lists, no underscores in names, a dash for nothing", () => {
  const event = create(AuditEventSchema, {
    changes: {
      delete_protection: { before: false, after: true },
      roles: { after: ["producer", "worker"] },
      group_mappings: { before: [], after: ["engineering → developer"] },
      name: { before: "", after: "shop" },
    },
  });
  expect(changesOf(event)).toEqual([
    { field: "delete protection", before: "false", after: "true" },
    { field: "roles", before: "–", after: "producer, worker" },
    { field: "group mappings", before: "none", after: "engineering → developer" },
    { field: "name", before: "–", after: "shop" },
  ]);
});
