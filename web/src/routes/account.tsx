import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { DoorOpen, Fingerprint, LogOut, Pencil, ShieldCheck, Smartphone, Trash2 } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { account, accountReads } from "~/data/account";
import { describeError } from "~/data/control";
import { hasPasskeys } from "~/features/account/passkey";
import { type Factor, FactorKind } from "~/gen/corvo/cloud/v1/factor_pb";
import { type Session, SessionKind } from "~/gen/corvo/cloud/v1/session_pb";
import { browserName } from "~/lib/browser-name";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const PasskeyDialog = lazy(() => import("~/features/account/passkey-dialog"));
const TotpDialog = lazy(() => import("~/features/account/totp-dialog"));
const RenameDialog = lazy(() => import("~/features/account/rename-dialog"));
const RecoveryDialog = lazy(() => import("~/features/account/recovery-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

/** What people do with their own account, in whatever tenant. */
export function AccountPage() {
  return (
    <Page description="Your second factors, and where you are signed in." width="text">
      <Factors />
      <Sessions />
      <Leave />
    </Page>
  );
}

/** A change of the account; what the page shows is read again. */
function useAccountChange<In>(change: (input: In) => Promise<unknown>, done: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => toast({ kind: "ok", title: done }),
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't do that", description: describeError(error) }),
    onSettled: () => client.invalidateQueries({ queryKey: ["account"] }),
  });
}

type Opened = "passkey" | "totp" | { rename: Factor } | { remove: Factor } | { codes: readonly string[] };

/** The second factors of whoever is signed in. */
export function Factors() {
  const factors = useQuery(accountReads.factors());
  const client = useQueryClient();
  const [opened, setOpened] = useState<Opened>();
  const close = () => {
    setOpened(undefined);
    void client.invalidateQueries({ queryKey: ["account"] });
  };
  const added = (codes: readonly string[]) => {
    if (codes.length > 0) setOpened({ codes });
    else setOpened(undefined);
    void client.invalidateQueries({ queryKey: ["account"] });
  };
  const codes = useMutation({
    mutationFn: () => account.factors.createRecoveryCodes({}),
    onSuccess: ({ recoveryCodes }) => added(recoveryCodes),
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't make recovery codes", description: describeError(error) }),
  });
  if (factors.error && !factors.data)
    return <Problem error={factors.error} onRetry={() => void factors.refetch()} />;
  const rows = factors.data?.factors;
  const left = factors.data?.recoveryCodes ?? 0;
  return (
    <Card
      flush
      title="Second factors"
      description="After the link in your email, a sign-in asks for one of these. So do dangerous actions."
      action={
        <span className="flex flex-wrap gap-2">
          <Button
            icon={<Fingerprint aria-hidden />}
            blockedBecause={hasPasskeys ? undefined : "This browser has no passkeys."}
            onClick={() => setOpened("passkey")}
          >
            Add passkey
          </Button>
          <Button icon={<Smartphone aria-hidden />} onClick={() => setOpened("totp")}>
            Add app
          </Button>
        </span>
      }
      footer={
        rows && rows.length > 0 ? (
          <span className="flex flex-wrap items-center justify-between gap-3">
            <span>{left === 1 ? "1 recovery code left" : `${left} recovery codes left`}</span>
            <Button size="sm" busy={codes.isPending} onClick={() => codes.mutate()}>
              Replace recovery codes
            </Button>
          </span>
        ) : undefined
      }
    >
      <Table
        label="second factors"
        rows={rows}
        rowKey={(factor) => factor.id}
        skeletonRows={1}
        empty={
          <EmptyState icon={<ShieldCheck aria-hidden />} title="No second factors yet">
            Add a passkey or an authenticator app to protect your account.
          </EmptyState>
        }
        columns={[
          {
            id: "name",
            header: "Name",
            phone: "title",
            cell: (factor) => (
              <>
                {factor.name}{" "}
                <Badge>{factor.kind === FactorKind.PASSKEY ? "Passkey" : "Authenticator app"}</Badge>
              </>
            ),
          },
          { id: "used", header: "Last used", cell: (factor) => <When at={dateOf(factor.lastUsedAt)} /> },
          actionsColumn({}, (factor: Factor) => [
            {
              label: `Rename ${factor.name}`,
              icon: <Pencil aria-hidden />,
              onClick: () => setOpened({ rename: factor }),
            },
            {
              label: `Remove ${factor.name}`,
              icon: <Trash2 aria-hidden />,
              danger: true,
              onClick: () => setOpened({ remove: factor }),
            },
          ]),
        ]}
      />
      <Suspense>{opened ? <FactorDialog opened={opened} close={close} added={added} /> : null}</Suspense>
    </Card>
  );
}

interface FactorDialogProps {
  opened: Opened;
  close: () => void;
  added: (codes: readonly string[]) => void;
}

function FactorDialog({ opened, close, added }: FactorDialogProps): ReactNode {
  if (opened === "passkey") return <PasskeyDialog onClose={close} onAdded={added} />;
  if (opened === "totp") return <TotpDialog onClose={close} onAdded={added} />;
  if ("codes" in opened) return <RecoveryDialog codes={opened.codes} onClose={close} />;
  if ("rename" in opened) return <RenameDialog factor={opened.rename} onClose={close} />;
  const { id, name } = opened.remove;
  return (
    <Confirm
      title="Remove second factor"
      confirmLabel="Remove second factor"
      onClose={close}
      onConfirm={() => account.factors.removeFactor({ factorId: id })}
    >
      Remove {name}? Without any second factor, the link in your email is enough to sign in.
    </Confirm>
  );
}

function When({ at }: { at: Date | undefined }) {
  return at ? <Time at={at} /> : "–";
}

const kinds: Record<SessionKind, string> = {
  [SessionKind.UNSPECIFIED]: "Session",
  [SessionKind.BROWSER]: "Browser",
  [SessionKind.CLI]: "Command line",
  [SessionKind.SSO]: "Single sign-on",
};

function Sessions() {
  const sessions = useQuery(accountReads.sessions());
  const revoke = useAccountChange(
    (session: Session) => account.sessions.revokeSession({ sessionId: session.id }),
    "Session revoked",
  );
  const others = useAccountChange(() => account.sessions.revokeOtherSessions({}), "Other sessions revoked");
  if (sessions.error && !sessions.data)
    return <Problem error={sessions.error} onRetry={() => void sessions.refetch()} />;
  const rows = sessions.data;
  return (
    <Card
      flush
      title="Sessions"
      description="Where you are signed in. Revoke what you don't recognize."
      action={
        <Button
          icon={<LogOut aria-hidden />}
          busy={others.isPending}
          blockedBecause={rows && rows.length > 1 ? undefined : "This is your only session."}
          onClick={() => others.mutate(undefined)}
        >
          Revoke other sessions
        </Button>
      }
    >
      <Table
        label="sessions"
        rows={rows}
        rowKey={(session) => session.id}
        skeletonRows={2}
        columns={[
          {
            id: "client",
            header: "Client",
            phone: "title",
            cell: (session) => (
              <span className="wrap-anywhere">
                <Badge>{kinds[session.kind]}</Badge>{" "}
                {session.current ? <Badge tone="ok">This one</Badge> : null}{" "}
                {session.clientName || browserName(session.userAgent)}
              </span>
            ),
          },
          { id: "ip", header: "IP address", cell: (session) => session.ip },
          { id: "created", header: "Signed in", cell: (session) => <When at={dateOf(session.createdAt)} /> },
          { id: "seen", header: "Last used", cell: (session) => <When at={dateOf(session.lastSeenAt)} /> },
          actionsColumn({}, (session: Session) => [
            {
              label: `Revoke session ${session.id}`,
              icon: <Trash2 aria-hidden />,
              danger: true,
              busy: revoke.isPending && revoke.variables?.id === session.id,
              onClick: () => revoke.mutate(session),
            },
          ]),
        ]}
      />
    </Card>
  );
}

function Leave() {
  const { tenant } = useParams({ from: "/$tenant" });
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const client = useQueryClient();
  return (
    <Card
      title="Leave tenant"
      description={`You lose your access to ${tenant}, and the keys that you made there are revoked.`}
      action={
        <Button variant="danger" icon={<DoorOpen aria-hidden />} onClick={() => setAsking(true)}>
          Leave tenant
        </Button>
      }
    >
      {asking ? (
        <Suspense>
          <Confirm
            title="Leave tenant"
            confirmLabel="Leave tenant"
            typeToConfirm={tenant}
            onClose={() => setAsking(false)}
            onConfirm={async () => {
              await account.sessions.leaveTenant({ tenant });
              client.clear();
              await navigate({ to: "/" });
            }}
          >
            Leave {tenant}? This revokes the keys that you made there. You need an invitation to come back.
          </Confirm>
        </Suspense>
      ) : null}
    </Card>
  );
}
