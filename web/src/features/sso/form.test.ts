import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { SsoConnectionSchema, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { fieldsOf, formOf, maskOf, statusOf } from "./form";

describe("the form of a connection", () => {
  test("sends the fields of its type alone", () => {
    const oidc = formOf(undefined);
    expect(fieldsOf(oidc)).toHaveProperty("issuer");
    expect(fieldsOf(oidc)).not.toHaveProperty("saml");
    const saml = formOf(undefined, SsoType.SAML);
    expect(fieldsOf(saml)).not.toHaveProperty("issuer");
    expect(fieldsOf(saml)).toHaveProperty("saml.signRequests", true);
  });

  test("keeps secret and metadata that nobody typed", () => {
    const connection = create(SsoConnectionSchema, {
      id: "sso_1",
      type: SsoType.SAML,
      saml: {
        entityId: "https://idp.example",
        metadataUrl: "https://idp.example/metadata",
        wantEncrypted: true,
      },
    });
    const form = formOf(connection);
    expect(form.saml.wantEncrypted).toBe(true);
    expect(maskOf(form, form)).toEqual([]);
    expect(maskOf({ ...form, saml: { ...form.saml, metadataXml: "<x/>" } }, form)).toEqual([
      "saml.metadata_xml",
    ]);
    const oidc = formOf(undefined);
    expect(maskOf({ ...oidc, clientSecret: "s" }, oidc)).toEqual(["client_secret"]);
  });
});

test("an update names what is different from the form as it began, and nothing else", () => {
  const oidc = formOf(undefined);
  const grouped = { ...oidc, mappings: [{ key: 0, group: "engineering", role: "developer" }] };
  expect(maskOf({ ...oidc, name: "Okta", issuer: "https://okta.test" }, oidc)).toEqual(["name", "issuer"]);
  expect(maskOf({ ...oidc, name: ` ${oidc.name} ` }, oidc)).toEqual([]);
  expect(maskOf(grouped, oidc)).toEqual(["group_mappings"]);
  expect(maskOf({ ...grouped, clientId: "c", groupsClaim: "teams", defaultRole: "" }, grouped)).toEqual([
    "client_id",
    "groups_claim",
    "default_role",
  ]);
  const saml = formOf(undefined, SsoType.SAML);
  expect(maskOf({ ...saml, saml: { ...saml.saml, wantEncrypted: true } }, saml)).toEqual([
    "saml.want_encrypted",
  ]);
});

test("a connection's status says whether people can sign in, and what waits", () => {
  const word = (connection: object) => statusOf(create(SsoConnectionSchema, connection)).word;
  expect(word({})).toBe("not tested");
  expect(word({ lastTest: { succeeded: false } })).toBe("not tested");
  expect(word({ lastTest: { succeeded: true } })).toBe("off");
  expect(word({ enabled: true })).toBe("on");
  expect(word({ enabled: true, staged: {} })).toBe("change to test");
});
