import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AuditFormat, AuditSinkSchema } from "~/gen/corvo/cloud/v1/audit_pb";
import { changedPaths, formOf, missingOf, type SinkKind, targetOf } from "./sinks";

const siem = create(AuditSinkSchema, {
  id: "snk_1",
  name: "SIEM",
  format: AuditFormat.NATIVE,
  target: { case: "https", value: { url: "https://siem.test/audit" } },
});
const bucket = create(AuditSinkSchema, {
  name: "Archive",
  format: AuditFormat.OCSF,
  target: {
    case: "s3",
    value: { endpoint: "https://s3.test", region: "eu", bucket: "b-1", prefix: "p/", accessKeyId: "AK" },
  },
});
const syslog = create(AuditSinkSchema, {
  name: "Logs",
  target: { case: "syslog", value: { host: "logs.test", port: 6515, caPem: "PEM" } },
});

it.each([siem, bucket, syslog])("a sink that is only looked at is not changed: $name", (sink) => {
  const form = formOf(sink);
  expect(form.kind).toBe(sink.target.case);
  expect(targetOf(form).value).toMatchObject(
    JSON.parse(
      JSON.stringify(sink.target.value, (key, value) =>
        key.startsWith("$") || value === "" ? undefined : value,
      ),
    ),
  );
  expect(changedPaths(form, sink)).toEqual([]);
  expect(missingOf(form, sink)).toBe("Nothing is changed.");
});

it("another name or format needs no secret, and does not send the target", () => {
  const form = { ...formOf(siem), name: " Other ", format: String(AuditFormat.OCSF) };
  expect(changedPaths(form, siem)).toEqual(["name", "format"]);
  expect(missingOf(form, siem)).toBeUndefined();
});

it("another target needs its secret again, and a new secret is a change", () => {
  const form = formOf(siem);
  form.texts.url = "https://siem.test/other";
  expect(changedPaths(form, siem)).toEqual(["https"]);
  expect(missingOf(form, siem)).toBe("Enter the signing secret: a changed target needs it again.");
  form.texts.signingSecret = "sixteen characters";
  expect(missingOf(form, siem)).toBeUndefined();
  form.texts.url = "https://siem.test/audit";
  expect(changedPaths(form, siem)).toEqual(["https"]);
});

it.each<[SinkKind, object, string | undefined]>([
  ["https", {}, "Enter the URL."],
  ["https", { url: "https://a" }, "Enter the signing secret."],
  ["https", { url: "https://a", signingSecret: "s" }, undefined],
  ["s3", { endpoint: "https://a" }, "Enter endpoint, region, bucket and access key ID."],
  ["s3", { endpoint: "e", region: "r", bucket: "b", accessKeyId: "a" }, "Enter the secret access key."],
  ["s3", { endpoint: "e", region: "r", bucket: "b", accessKeyId: "a", secretAccessKey: "s" }, undefined],
  ["syslog", {}, "Enter the host."],
  ["syslog", { host: "h" }, undefined],
])("a new sink over %s with %o", (kind, texts, missing) => {
  const form = { ...formOf(), name: "x", kind };
  form.texts = { ...form.texts, ...texts };
  expect(missingOf(form)).toBe(missing);
  expect(missingOf({ ...form, name: " " })).toBe("Enter a name.");
});
