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

test("one action of a link is among the kinds to choose from", () => {
  expect(actionOptions("queue.").some((option) => option.value === "queue.pause")).toBe(false);
  expect(actionOptions("queue.pause").at(-1)).toEqual({ value: "queue.pause", label: "Queue paused" });
});

test("what was done is in words, also what this page was not told of", () => {
  const words = {
    "approval_policy.delete": "Approval policy deleted",
    "approval_policy.set": "Approval policy saved",
    "audit.cut": "Entries missing",
    "billing.checkout": "Checkout opened",
    "billing.portal": "Payment portal opened",
    "billing.update": "Billing emails changed",
    "budget.delete": "Budget deleted",
    "budget.set": "Budget saved",
    "invitation.create": "Invitation sent",
    "invitation.delete": "Invitation withdrawn",
    "job.approve": "Job approved",
    "job.cancel": "Job cancelled",
    "job.delete": "Job deleted",
    "job.hold": "Job held",
    "job.move": "Job moved",
    "job.reject": "Job rejected",
    "job.replay": "Job replayed",
    "job.retry": "Job retried",
    "jobs.approve": "Jobs approved in bulk",
    "jobs.cancel": "Jobs cancelled in bulk",
    "jobs.change_priority": "Job priority changed in bulk",
    "jobs.delete": "Jobs deleted in bulk",
    "jobs.hold": "Jobs held in bulk",
    "jobs.move": "Jobs moved in bulk",
    "jobs.reject": "Jobs rejected in bulk",
    "jobs.requeue": "Dead jobs retried in bulk",
    "jobs.retry": "Jobs retried in bulk",
    "key.create": "API key created",
    "key.notice": "API key's end announced",
    "key.revoke": "API key revoked",
    "key.rotate": "API key secret rotated",
    "key.update": "API key changed",
    "member.create": "Member joined",
    "member.delete": "Member removed",
    "member.update": "Member roles changed",
    "group.add_members": "Group members added",
    "role_binding.delete": "Role taken away",
    "service_account.update": "Service account changed",
    "namespace.create": "Namespace created",
    "namespace.delete": "Namespace deleted",
    "namespace.update": "Namespace changed",
    "queue.clear": "Queue cleared",
    "queue.delete": "Queue deleted",
    "queue.drain": "Queue drained",
    "queue.pause": "Queue paused",
    "queue.requeue": "All dead jobs retried",
    "queue.resume": "Queue resumed",
    "queue.update": "Queue settings changed",
    "schedule.create": "Schedule created",
    "schedule.delete": "Schedule deleted",
    "schedule.pause": "Schedule paused",
    "schedule.resume": "Schedule resumed",
    "schedule.run": "Schedule run now",
    "schedule.update": "Schedule changed",
    "session.create": "Signed in",
    "session.end_all": "Signed out everywhere",
    "sso.create": "Single sign-on set up",
    "sso.delete": "Single sign-on deleted",
    "sso.discard": "Single sign-on changes discarded",
    "sso.switch": "Single sign-on turned on or off",
    "sso.update": "Single sign-on changed",
    "spend_limit.update": "Spend limit changed",
    "tenant.create": "Tenant created",
    "tenant.update": "Tenant changed",
    "queue.teleport": "Queue teleported",
    unknown: "unknown",
  };
  for (const [action, name] of Object.entries(words)) expect(actionName(action)).toBe(name);
});
