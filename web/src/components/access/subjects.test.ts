import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { nameOf } from "~/data/access";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { PermissionInfoSchema } from "~/gen/corvo/cloud/v1/role_pb";
import { bySubject } from "./subjects";

const info = (name: string) => create(PermissionInfoSchema, { name });
const titles = (...names: string[]) => bySubject(names.map(info)).map(({ title }) => title);

it("every permission of the API has a subject", () => {
  // Those below stand for calls that no role allows.
  const given = Object.values(Permission).filter((value) => typeof value === "number" && value >= 10);
  expect(given.length).toBeGreaterThan(40);
  expect(titles(...given.map((value) => nameOf(value as Permission)))).not.toContain("Others");
});

it("one that this console doesn't know yet is shown among the others", () => {
  expect(titles("queue.read", "robot.start", "job.read")).toEqual(["Jobs", "Queues", "Others"]);
});
