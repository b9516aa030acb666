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
    expect(maskOf(formOf(undefined))).not.toContain("client_secret");
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
    expect(maskOf(form)).not.toContain("saml.metadata_url");
    expect(maskOf(form)).not.toContain("issuer");
    expect(maskOf({ ...form, saml: { ...form.saml, metadataXml: "<x/>" } })).toContain("saml.metadata_xml");
  });
});

test("a connection's status says whether people can sign in, and what waits", () => {
  const word = (connection: object) => statusOf(create(SsoConnectionSchema, connection)).word;
  expect(word({})).toBe("not tested");
  expect(word({ lastTest: { succeeded: false } })).toBe("not tested");
  expect(word({ lastTest: { succeeded: true } })).toBe("off");
  expect(word({ enabled: true })).toBe("on");
  expect(word({ enabled: true, staged: {} })).toBe("change to test");
});
