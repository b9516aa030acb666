import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { ReviewedPrincipalSchema } from "~/gen/corvo/cloud/v1/review_pb";
import { reviewCsv } from "./words";

it("is a file that a spreadsheet reads, and calculates nothing of", () => {
  const csv = reviewCsv([
    create(ReviewedPrincipalSchema, {
      type: "key",
      principalId: "key_1",
      principal: '=cmd("x"), or so',
      owner: "billing",
      roles: ["worker in production", "viewer"],
      createdAt: timestampFromDate(new Date(Date.UTC(2026, 10, 1))),
      unused: true,
    }),
  ]);
  expect(csv.split("\r\n")).toEqual([
    "type,id,name,owner,roles,groups,created,last_used,expires,unused_90_days,disabled",
    `key,key_1,"'=cmd(""x""), or so",billing,worker in production; viewer,,2026-11-01T00:00:00.000Z,,,true,false`,
    "",
  ]);
});
