import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AuditEventSchema } from "~/gen/corvo/cloud/v1/audit_pb";
import { actionName, actionOptions, caveatOf, changesOf, targetOf } from "./words";

test("changes are words: no JSON for lists, no underscores in names, a dash for nothing", () => {
  const event = create(AuditEventSchema, {
    changes: {
      delete_protection: { before: false, after: true },
      roles: { after: ["producer", "worker"] },
      group_mappings: { before: [], after: ["engineering → developer"] },
      name: { before: "", after: "shop" },
      per_job_usd: { before: null, after: 1.5 },
      default_role: { before: "unspecified", after: "viewer" },
    },
  });
  expect(changesOf(event)).toEqual([
    { field: "delete protection", before: "false", after: "true" },
    { field: "roles", before: "–", after: "producer, worker" },
    { field: "group mappings", before: "none", after: "engineering → developer" },
    { field: "name", before: "–", after: "shop" },
    { field: "per job USD", before: "–", after: "1.5" },
    { field: "default role", before: "–", after: "viewer" },
  ]);
});

test("a bulk call says how many jobs once, and its filter and what it left as it was beside it", () => {
  const event = create(AuditEventSchema, {
    action: "jobs.retry",
    targetType: "jobs",
    changes: {
      affected: { after: 1_204 },
      filter: { after: "queue=emails state=dead" },
      left_as_they_were: { after: 2 },
      interrupted: { after: true },
    },
  });
  expect(actionName(event.action)).toBe("Jobs retried in bulk");
  expect(targetOf(event)).toEqual({ kind: "", name: "1,204 jobs" });
  expect(caveatOf(event)?.label).toBe("Interrupted");
  expect(changesOf(event)).toEqual([
    { field: "filter", before: "–", after: "queue=emails state=dead" },
    { field: "not changed", before: "–", after: "2" },
  ]);
});

test("entries that were dropped are counted and told", () => {
  const event = create(AuditEventSchema, {
    action: "audit.cut",
    targetType: "audit",
    changes: { affected: { after: 1 } },
  });
  expect(actionName(event.action)).toBe("Entries missing");
  expect(targetOf(event)).toEqual({ kind: "", name: "1 entry" });
  expect(caveatOf(event)?.label).toBe("Log incomplete");
  expect(changesOf(event)).toEqual([]);
});

test("a thing that has an id and a name is called by its name, once", () => {
  const schedule = { targetType: "schedule", targetId: "sch_1", target: "sch_1" };
  const paused = create(AuditEventSchema, { ...schedule, changes: { name: { after: "nightly" } } });
  expect(targetOf(paused)).toEqual({ kind: "schedule", name: "nightly" });
  expect(changesOf(paused)).toEqual([]);
  expect(targetOf(create(AuditEventSchema, schedule))).toEqual({ kind: "schedule", name: "sch_1" });
});

test("an id is not called by its kind once more", () => {
  const id = "job_01JD0Z5W6T8RXVQ4K2M3N7P9SB";
  const held = create(AuditEventSchema, { targetType: "job", targetId: id, target: id });
  expect(targetOf(held)).toEqual({ kind: "", name: id });
});

test("one action of a link is among the kinds to choose from; one nobody knows is shown as it is", () => {
  expect(actionOptions("queue.").some((option) => option.value === "queue.pause")).toBe(false);
  expect(actionOptions("queue.pause").at(-1)).toEqual({ value: "queue.pause", label: "Queue paused" });
  expect(actionName("queue.teleport")).toBe("queue.teleport");
});
