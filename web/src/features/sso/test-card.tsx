import { useQueryClient } from "@tanstack/react-query";
import { CircleCheck, FlaskConical } from "lucide-react";
import { useEffect, useRef } from "react";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Facts } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { Code } from "~/components/ui/code";
import { CopyButton } from "~/components/ui/copy";
import { Field } from "~/components/ui/field";
import { Time } from "~/components/ui/time";
import { roleName } from "~/data/access";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import { type SsoConnection, type SsoTest, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { dateOf } from "~/lib/proto-time";
import { PresetSteps } from "./preset-steps";
import { Step } from "./step";

interface TestCardProps {
  tenant: string;
  connection: SsoConnection | undefined;
  blocked: string | undefined;
}

/** A test sign-in in a window of its own, and its result. */
export function TestCard({ tenant, connection, blocked }: TestCardProps) {
  // A test uses the staged change, if there is one.
  const lastTest = connection?.staged ? connection.staged.lastTest : connection?.lastTest;
  const refresh = useRefreshAfterTrial(tenant, lastTest);
  const start = useChange(tenant, async () => {
    if (!connection) return;
    const connectionId = connection.id;
    // Opened before the answer: later the browser would take it for an unasked pop-up.
    const trial = window.open("about:blank", "corvo-sso-test", "width=560,height=720");
    try {
      const { url } = await admin.sso.startTestLogin({ tenant, connectionId });
      if (trial) trial.location.href = url;
      else window.location.href = url;
      refresh.watch();
    } catch (error) {
      trial?.close();
      throw error;
    }
  });
  return (
    <Step
      number={3}
      progress={connection === undefined ? "later" : lastTest?.succeeded ? "done" : "now"}
      title="Test sign-in"
      description="Sign in with your provider in a new window to see what Corvo receives."
      action={
        connection ? (
          <Button
            variant={lastTest?.succeeded ? "secondary" : "primary"}
            icon={<FlaskConical aria-hidden />}
            busy={start.isPending}
            blockedBecause={blocked}
            onClick={() => start.mutate(undefined)}
          >
            Test sign-in
          </Button>
        ) : null
      }
    >
      {lastTest ? (
        <TestResult test={lastTest} />
      ) : (
        <p className="text-13 text-ink-2">
          {connection?.staged
            ? "The new settings haven't been tested yet. Run a successful test before you use them."
            : "Not tested since the last change. Run a successful test before you turn it on."}
        </p>
      )}
    </Step>
  );
}

function TestResult({ test }: { test: SsoTest }) {
  const at = dateOf(test.at);
  if (!test.succeeded)
    return (
      <Banner
        tone="danger"
        title={
          <>
            Test failed
            {at ? (
              <>
                {" "}
                (<Time at={at} />)
              </>
            ) : null}
          </>
        }
      >
        {test.problem}
      </Banner>
    );
  return (
    <div className="flex flex-col gap-3">
      <p className="flex items-center gap-2 text-13 font-medium text-ok-text">
        <CircleCheck aria-hidden className="size-4" /> It works
        {at ? (
          <>
            , tried <Time at={at} />
          </>
        ) : null}
      </p>
      <Facts
        items={[
          { label: "Subject", value: <Code>{test.subject}</Code> },
          { label: "Email", value: test.email || "–" },
          {
            label: "Groups",
            value: test.groups.length ? (
              <span className="flex flex-wrap gap-1">
                {test.groups.map((group) => (
                  <Badge key={group}>{group}</Badge>
                ))}
              </span>
            ) : (
              "none"
            ),
          },
          { label: "Role", value: roleName(test.role) },
        ]}
      />
    </div>
  );
}

const pollEvery = 1500;
const pollFor = 10 * 60_000;

/**
 * Reads the connection again until a trial has left its result. The trial's window cannot
 * be asked: once it has been at the provider the browser keeps the two pages apart.
 */
function useRefreshAfterTrial(tenant: string, lastTest: SsoTest | undefined) {
  const client = useQueryClient();
  const timer = useRef<number>(undefined);
  const stop = () => window.clearInterval(timer.current);
  // Another result than before: the trial is over.
  const result = dateOf(lastTest?.at)?.getTime();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the result is what ends it
  useEffect(() => stop, [result]);
  return {
    watch() {
      stop();
      const until = Date.now() + pollFor;
      timer.current = window.setInterval(() => {
        void client.invalidateQueries({ queryKey: ["control", tenant, "sso"] });
        if (Date.now() > until) stop();
      }, pollEvery);
    },
  };
}

interface ProviderCardProps {
  connection: SsoConnection | undefined;
  redirectUri: string;
  loginUrl: string;
  type: SsoType;
  /** Undefined once there is a connection: its type stays. */
  onType: ((type: SsoType) => void) | undefined;
}

const protocols = [
  { value: String(SsoType.OIDC), label: "OpenID Connect" },
  { value: String(SsoType.SAML), label: "SAML 2.0" },
];

/** What to configure at the provider, and where users of the tenant start. */
export function ProviderCard({ connection, redirectUri, loginUrl, type, onType }: ProviderCardProps) {
  const saml = type === SsoType.SAML;
  const details = connection?.samlDetails;
  return (
    <Step
      number={1}
      progress={connection ? "done" : "now"}
      title="Register Corvo with your provider"
      description={
        saml
          ? "Create a SAML 2.0 application. Works with Okta, Entra ID, Google, Keycloak, JumpCloud and others."
          : "Create a web application with OpenID Connect and the authorization code flow. Works with Okta, Entra ID, Google, Keycloak and others."
      }
    >
      <div className="flex flex-col gap-4">
        {onType ? (
          <Field label="Protocol" className="sm:w-1/2">
            <Choice options={protocols} value={String(type)} onChange={(value) => onType(Number(value))} />
          </Field>
        ) : null}
        {saml ? null : <PresetSteps />}
        {connection?.oldRedirectUri ? <OldRedirect connection={connection} /> : null}
        {!saml ? (
          <Facts
            items={[
              { label: "Redirect URI", value: <Copyable text={redirectUri} /> },
              { label: "Sign-in page", value: <Copyable text={loginUrl} /> },
            ]}
          />
        ) : details ? (
          <Facts
            items={[
              { label: "Entity ID", value: <Copyable text={details.spEntityId} /> },
              { label: "ACS URL", value: <Copyable text={details.acsUrl} /> },
              { label: "Metadata", value: <Copyable text={details.spMetadataUrl} /> },
              { label: "Sign-in page", value: <Copyable text={loginUrl} /> },
            ]}
          />
        ) : (
          <p className="text-13 text-ink-2">
            Create the connection below. Its entity ID and ACS URL for your provider then appear here.
          </p>
        )}
      </div>
    </Step>
  );
}

/** People still sign in by the redirect URI of before: what to do, and that nothing breaks meanwhile. */
function OldRedirect({ connection }: { connection: SsoConnection }) {
  return (
    <Banner tone="warn" title="Move to the redirect URI below">
      People still sign in with {connection.oldRedirectUri}. Add the one below at your provider and run a test
      sign-in. Once it succeeds{connection.staged ? " and you switch" : ""}, everyone uses the new one, and
      you can remove the old one.
    </Banner>
  );
}

export function Copyable({ text }: { text: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <Code>{text}</Code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </span>
  );
}
