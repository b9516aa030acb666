import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { TenantAccessSchema } from "~/gen/corvo/cloud/v1/auth_pb";
import { accessOf, nameOf, roleNames } from "./access";
import { rightsOf } from "./rights";

const access = accessOf(
  create(TenantAccessSchema, {
    tenant: "acme",
    roles: ["viewer"],
    permissions: [Permission.QUEUE_READ],
    somewhere: [Permission.JOB_RETRY],
  }),
);

describe("what the caller may do", () => {
  it("in the whole tenant is not what they may in some queue", () => {
    expect(access.can(Permission.QUEUE_READ)).toBe(true);
    expect(access.can(Permission.JOB_RETRY)).toBe(false);
    expect(access.canSomewhere(Permission.JOB_RETRY)).toBe(true);
    expect(access.canSomewhere(Permission.JOB_DELETE)).toBe(false);
    expect(access.blocked(Permission.JOB_RETRY)).toBe(
      "Your role (viewer) can't retry jobs. An owner or admin of acme can give you a role that can.",
    );
    expect(access.blockedEverywhere(Permission.JOB_RETRY)).toBeUndefined();
  });
  it("covers a role if every permission of it is theirs", () => {
    expect(access.holds(["queue.read"])).toBe(true);
    expect(access.holds(["queue.read", "job.retry"])).toBe(false);
  });
  it("has the names that the API writes", () => {
    expect(nameOf(Permission.JOB_RETRY)).toBe("job.retry");
    expect(nameOf(Permission.SERVICE_ACCOUNT_UPDATE)).toBe("service_account.update");
  });
});

describe("what the token of a namespace allows", () => {
  const minted = {
    permissions: ["queue.read"],
    inQueues: [{ permissions: ["job.retry"], queues: ["mail", "reports.*"] }],
  };
  const rights = rightsOf(access, minted);
  it("goes by queue", () => {
    expect(rights.blocked(Permission.QUEUE_READ, "anything")).toBeUndefined();
    expect(rights.blocked(Permission.JOB_RETRY, "mail")).toBeUndefined();
    expect(rights.blocked(Permission.JOB_RETRY, "reports.daily")).toBeUndefined();
    expect(rights.blocked(Permission.JOB_RETRY, "mail.urgent")).toMatch(/can't retry jobs/);
    expect(rights.blocked(Permission.JOB_DELETE, "mail")).toMatch(/can't delete jobs/);
  });
  it("is enough for what names no queue, if it holds in one", () => {
    expect(rights.blocked(Permission.JOB_RETRY)).toBeUndefined();
  });
  it("until there is one, is what they may in the whole tenant", () => {
    const before = rightsOf(access, undefined);
    expect(before.blocked(Permission.QUEUE_READ)).toBeUndefined();
    expect(before.blocked(Permission.JOB_RETRY, "mail")).toBeDefined();
  });
});

it("roles that every tenant has are words; its own are names", () => {
  expect(roleNames(["owner", "night shift"])).toBe("Owner, night shift");
  expect(roleNames([])).toBe("Member");
});
