import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AuditFormat, AuditSinkSchema } from "~/gen/corvo/cloud/v1/audit_pb";
import { fileName } from "./export";
import { placeOf } from "./sinks";

test("the file says whose log it is, of which day and in which format", () => {
  const at = new Date("2026-11-23T16:30:00Z");
  expect(fileName("acme", AuditFormat.NATIVE, at)).toBe("audit-acme-2026-11-23.ndjson");
  expect(fileName("acme", AuditFormat.OCSF, at)).toBe("audit-acme-2026-11-23-ocsf.ndjson");
});

test("a sink's place is one line, without secrets", () => {
  const https = create(AuditSinkSchema, {
    target: { case: "https", value: { url: "https://siem.company.com/audit", signingSecret: "s3cret" } },
  });
  const s3 = create(AuditSinkSchema, {
    target: { case: "s3", value: { bucket: "audit", prefix: "corvo/" } },
  });
  const syslog = create(AuditSinkSchema, {
    target: { case: "syslog", value: { host: "log.company.com", port: 6514 } },
  });
  expect([https, s3, syslog, create(AuditSinkSchema)].map(placeOf)).toEqual([
    "https://siem.company.com/audit",
    "s3://audit/corvo/",
    "log.company.com:6514 (syslog)",
    "–",
  ]);
});
