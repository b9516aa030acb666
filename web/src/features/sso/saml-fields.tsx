import type { ReactNode } from "react";
import { Banner } from "~/components/ui/banner";
import { Facts } from "~/components/ui/card";
import { Code } from "~/components/ui/code";
import { Field, Input, Textarea } from "~/components/ui/field";
import { Time } from "~/components/ui/time";
import type { SsoConnection } from "~/gen/corvo/cloud/v1/sso_pb";
import { dateOf } from "~/lib/proto-time";
import type { SamlForm } from "./form";

interface SamlFieldsProps {
  form: SamlForm;
  connection: SsoConnection | undefined;
  set: (change: Partial<SamlForm>) => void;
  wrong: Record<string, string>;
}

/** The provider's side of a SAML connection. */
export function SamlFields({ form, connection, set, wrong }: SamlFieldsProps) {
  const saml = (connection?.staged ?? connection)?.saml;
  const known = Boolean(saml?.entityId);
  return (
    <div className="flex flex-col gap-4">
      {connection?.samlDetails?.warnings.map((warning) => (
        <Banner key={warning} tone="warn" title="Certificate">
          {warning}
        </Banner>
      ))}
      {known ? <ProviderFacts connection={connection} /> : null}
      <Field
        label="Metadata URL"
        hint={known ? "Leave empty to keep the provider's current settings." : "Read once, when you save."}
        error={wrong["saml.metadata_url"]}
      >
        <Input
          mono
          type="url"
          placeholder="https://login.example.com/metadata.xml"
          value={form.metadataUrl}
          onChange={(metadataUrl) => set({ metadataUrl })}
        />
      </Field>
      <Field
        label="Metadata XML"
        hint="Paste the document instead of its URL."
        error={wrong["saml.metadata_xml"]}
      >
        <Textarea value={form.metadataXml} onChange={(metadataXml) => set({ metadataXml })} />
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Email attribute" hint="Empty: the usual names." error={wrong["saml.email_attribute"]}>
          <Input mono value={form.emailAttribute} onChange={(emailAttribute) => set({ emailAttribute })} />
        </Field>
        <Field label="Name attribute" hint="Empty: the usual names." error={wrong["saml.name_attribute"]}>
          <Input mono value={form.nameAttribute} onChange={(nameAttribute) => set({ nameAttribute })} />
        </Field>
      </div>
      <Check checked={form.signRequests} onChange={(signRequests) => set({ signRequests })}>
        Sign requests to the provider
      </Check>
      <Check checked={form.wantEncrypted} onChange={(wantEncrypted) => set({ wantEncrypted })}>
        Require encrypted assertions
      </Check>
      <Check checked={form.allowIdpInitiated} onChange={(allowIdpInitiated) => set({ allowIdpInitiated })}>
        Allow sign-in from the provider's page
      </Check>
    </div>
  );
}

/** What the provider's metadata said, of the settings that a test would use. */
function ProviderFacts({ connection }: { connection: SsoConnection | undefined }) {
  const saml = (connection?.staged ?? connection)?.saml;
  return (
    <Facts
      items={[
        { label: "Provider", value: <Code>{saml?.entityId}</Code> },
        { label: "Sign-on URL", value: <Code>{saml?.ssoUrl}</Code> },
        ...(connection?.samlDetails?.certificates ?? []).map((certificate) => {
          const end = dateOf(certificate.notAfter);
          return {
            label: "Certificate",
            value: (
              <span className="inline-flex flex-wrap gap-1">
                <Code>{certificate.fingerprint.slice(0, 16)}</Code>
                {end ? (
                  <span>
                    expires <Time at={end} />
                  </span>
                ) : null}
              </span>
            ),
          };
        }),
      ]}
    />
  );
}

function Check({
  checked,
  onChange,
  children,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  children: ReactNode;
}) {
  return (
    <label className="flex items-start gap-2.5 text-13">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.target.checked)}
        className="mt-0.5 size-4.5 accent-accent"
      />
      {children}
    </label>
  );
}
