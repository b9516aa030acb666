import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate, useRouteContext } from "@tanstack/react-router";
import { Plus, ShieldCheck, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Facts } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { ConnectionForm } from "~/features/sso/connection-form";
import { Connections } from "~/features/sso/connections";
import { Step } from "~/features/sso/step";
import { Copyable, ProviderCard, TestCard } from "~/features/sso/test-card";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type SsoConnection, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { ssoEquivalents } from "~/lib/access-equivalents";

const Confirm = lazy(() => import("~/components/confirm"));

const route = getRouteApi("/$tenant/settings/sso");

/** What the address says instead of an id for one that is to be made. */
const NEW = "new";

export function SsoPage() {
  const { tenant } = route.useParams();
  const { connection: wanted } = route.useSearch();
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.SSO_READ);
  const connections = useQuery({ ...adminReads.connections(tenant), enabled: !unreadable });
  const all = connections.data ?? [];
  const connection = wanted === NEW ? undefined : (all.find(({ id }) => id === wanted) ?? all[0]);
  useCopyAs(ssoEquivalents(tenant, connection?.id));
  return (
    <Page
      width="text"
      actions={all.length > 0 && wanted !== NEW ? <Add access={access} /> : null}
      description={`Let people sign in to ${tenant} with your identity provider, with roles based on their groups.`}
    >
      {unreadable ? (
        <EmptyState icon={<ShieldCheck aria-hidden />} title="You can't view single sign-on">
          {unreadable}
        </EmptyState>
      ) : connections.error && !connections.data ? (
        <Problem error={connections.error} onRetry={() => void connections.refetch()} />
      ) : connections.data ? (
        <>
          {all.length > 1 || (all.length > 0 && !connection) ? (
            <Connections tenant={tenant} connections={all} chosen={connection?.id} />
          ) : null}
          <SetUp key={connection?.id ?? NEW} access={access} connection={connection} />
        </>
      ) : (
        <SkeletonRows rows={5} columns={2} label="Loading single sign-on" />
      )}
    </Page>
  );
}

const byMail = "Invited members can still sign in by email.";

/** Another one beside those that there are. */
function Add({ access }: { access: Access }) {
  const blocked = access.blocked(Permission.SSO_UPDATE);
  const navigate = useNavigate({ from: "/$tenant/settings/sso" });
  return (
    <Button
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => void navigate({ search: { connection: NEW } })}
    >
      Add connection
    </Button>
  );
}

interface SetUpProps {
  access: Access;
  connection: SsoConnection | undefined;
}

function SetUp({ access, connection }: SetUpProps) {
  const { tenant, tenantId } = access;
  const navigate = useNavigate({ from: "/$tenant/settings/sso" });
  const show = (id: string | undefined) => void navigate({ search: { connection: id }, replace: true });
  const blocked = access.blocked(Permission.SSO_UPDATE);
  const origin = window.location.origin;
  const [chosen, setChosen] = useState(SsoType.OIDC);
  const type = connection?.type ?? chosen;
  return (
    <>
      <ProviderCard
        connection={connection}
        type={type}
        onType={connection ? undefined : setChosen}
        redirectUri={connection?.redirectUri ?? `${origin}/auth/oidc/${tenantId}/callback`}
        loginUrl={connection?.loginUrl ?? `${origin}/auth/oidc/start?tenant=${tenant}`}
      />
      <ConnectionForm
        key={connection?.id ?? `new-${type}`}
        access={access}
        connection={connection}
        type={type}
        blocked={blocked}
        onCreated={show}
      />
      <TestCard tenant={tenant} connection={connection} blocked={blocked} />
      {connection?.staged ? <Staged tenant={tenant} connection={connection} blocked={blocked} /> : null}
      {connection?.samlDetails ? <OwnKey tenant={tenant} connection={connection} blocked={blocked} /> : null}
      {connection ? (
        <SwitchOn
          tenant={tenant}
          connection={connection}
          blocked={blocked}
          onDeleted={() => show(undefined)}
        />
      ) : (
        <Step number={4} progress="later" title="Turn it on" description={byMail} />
      )}
    </>
  );
}

interface StagedProps {
  tenant: string;
  connection: SsoConnection;
  blocked: string | undefined;
}

/** A change of an enabled connection: tested first, then switched to. */
function Staged({ tenant, connection, blocked }: StagedProps) {
  const { id: connectionId, etag, staged } = connection;
  const apply = useChange(tenant, () => admin.sso.switchSsoConnection({ tenant, connectionId, etag }), {
    done: () => "The new settings are in use",
  });
  const discard = useChange(tenant, () => admin.sso.discardSsoChange({ tenant, connectionId }), {
    done: () => "Change discarded",
  });
  return (
    <Banner
      tone="warn"
      title="Your changes aren't in use yet"
      action={
        <span className="flex flex-wrap gap-2">
          <Button busy={discard.isPending} blockedBecause={blocked} onClick={() => discard.mutate(undefined)}>
            Discard changes
          </Button>
          <Button
            variant="primary"
            busy={apply.isPending}
            blockedBecause={
              blocked ??
              (staged?.lastTest?.succeeded ? undefined : "Run a test sign-in with the new settings first.")
            }
            onClick={() => apply.mutate(undefined)}
          >
            Use new settings
          </Button>
        </span>
      }
    >
      People keep signing in with the current settings. A test sign-in uses the new ones.
    </Banner>
  );
}

/** The key of a SAML connection: the next one is made first, and used once the provider knows it. */
function OwnKey({ tenant, connection, blocked }: StagedProps) {
  const { id: connectionId, etag, samlDetails } = connection;
  const rotate = useChange(
    tenant,
    (finish: boolean) => admin.sso.rotateSamlKey({ tenant, connectionId, etag, finish }),
    { done: (answer) => (answer.connection?.samlDetails?.spNextCertificate ? undefined : "Key replaced") },
  );
  const next = samlDetails?.spNextCertificate;
  return next ? (
    <Banner
      tone="warn"
      title="A new key waits"
      action={
        <Button
          variant="primary"
          busy={rotate.isPending}
          blockedBecause={blocked}
          onClick={() => rotate.mutate(true)}
        >
          Use new key
        </Button>
      }
    >
      <p>
        Give your provider this certificate, or have it read our metadata again. Then run a test sign-in, and
        use the new key. The old one is deleted.
      </p>
      <CodeBlock code={next} label="Certificate" className="mt-2" maxHeight="max-h-40" />
    </Banner>
  ) : (
    <p className="flex flex-wrap items-center gap-3 text-13 text-ink-2">
      This connection signs requests with a key of its own, which can be replaced without downtime.
      <Button busy={rotate.isPending} blockedBecause={blocked} onClick={() => rotate.mutate(false)}>
        Replace key
      </Button>
    </p>
  );
}

interface SwitchOnProps extends StagedProps {
  onDeleted: () => void;
}

function SwitchOn({ tenant, connection, blocked, onDeleted }: SwitchOnProps) {
  const [deleting, setDeleting] = useState(false);
  const change = useChange(
    tenant,
    (enabled: boolean) =>
      admin.sso.updateSsoConnection({
        tenant,
        connectionId: connection.id,
        etag: connection.etag,
        enabled,
        updateMask: { paths: ["enabled"] },
      }),
    { done: (answer) => (answer.connection?.enabled ? "Single sign-on is on" : "Single sign-on is off") },
  );
  const remove = useChange(
    tenant,
    () => admin.sso.deleteSsoConnection({ tenant, connectionId: connection.id }),
    { quiet: true, done: () => "Connection deleted" },
  );
  const tested = connection.lastTest?.succeeded;
  return (
    <>
      <Step
        number={4}
        progress={connection.enabled ? "done" : tested ? "now" : "later"}
        title={connection.enabled ? "Single sign-on is on" : "Turn it on"}
        description={byMail}
        action={
          <span className="flex flex-wrap gap-2">
            <Button
              variant="danger-ghost"
              icon={<Trash2 aria-hidden />}
              blockedBecause={blocked}
              onClick={() => setDeleting(true)}
            >
              Delete
            </Button>
            <Button
              variant={connection.enabled ? "secondary" : "primary"}
              busy={change.isPending}
              blockedBecause={
                blocked ?? (connection.enabled || tested ? undefined : "Run a successful test sign-in first.")
              }
              onClick={() => change.mutate(!connection.enabled)}
            >
              {connection.enabled ? "Turn off" : "Turn on"}
            </Button>
          </span>
        }
      >
        {connection.enabled ? (
          <div className="flex flex-col gap-3 text-13 text-ink-2">
            <Facts items={[{ label: "Sign-in URL", value: <Copyable text={connection.loginUrl} /> }]} />
            <p>
              Next: add your <Next tenant={tenant} to="domains" word="domains" />, so that the sign-in page
              sends your people here by their email address. Have your directory add and remove people by{" "}
              <Next tenant={tenant} to="directory" word="directory sync" />. Require single sign-on in the{" "}
              <Next tenant={tenant} to="policy" word="sign-in policy" />.
            </p>
          </div>
        ) : null}
      </Step>
      <Suspense>
        {deleting ? (
          <Confirm
            onClose={() => setDeleting(false)}
            title={`Delete ${connection.name}?`}
            confirmLabel="Delete connection"
            onConfirm={async () => {
              await remove.mutateAsync(undefined);
              onDeleted();
            }}
          >
            People who joined through it are signed out and removed from {tenant}, and their personal keys are
            revoked. Keys of service accounts keep working. This can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </>
  );
}

interface NextProps {
  tenant: string;
  to: "domains" | "directory" | "policy";
  word: string;
}

function Next({ tenant, to, word }: NextProps) {
  return (
    <Link
      to={`/$tenant/settings/${to}`}
      params={{ tenant }}
      className="font-medium text-accent-text underline-offset-2 hover:underline"
    >
      {word}
    </Link>
  );
}
