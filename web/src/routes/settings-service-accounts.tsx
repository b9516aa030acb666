import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import {
  Bot,
  CirclePause,
  CirclePlay,
  Handshake,
  KeyRound,
  Pencil,
  Plus,
  ShieldCheck,
  Trash2,
} from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { RoleBadges } from "~/components/access/role-badges";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { reads } from "~/data/queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Trust } from "~/gen/corvo/cloud/v1/exchange_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { accountsEquivalents, firstAccount } from "~/lib/access-equivalents";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const AccessDialog = lazy(() => import("~/components/access/access-dialog"));
const AccountDialog = lazy(() => import("~/features/accounts/account-dialog"));
const DeleteDialog = lazy(() => import("~/features/accounts/delete-dialog"));
const KeysDialog = lazy(() => import("~/features/accounts/keys-dialog"));
const TrustsDialog = lazy(() => import("~/features/accounts/trusts-dialog"));
const TrustDialog = lazy(() => import("~/features/accounts/trust-dialog"));
const CreateDialog = lazy(() => import("~/features/keys/create-dialog"));
const SecretDialog = lazy(() => import("~/features/keys/secret-dialog"));

type Open =
  | { what: "create" }
  | {
      what: "edit" | "delete" | "access" | "keys" | "new-key" | "trusts" | "new-trust";
      account: ServiceAccount;
      made?: Trust | undefined;
    }
  | { what: "secret"; name: string; secret: string };

/** Programs and machines: what they may do, and their keys. */
export function ServiceAccountsPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.SERVICE_ACCOUNT_READ);
  const accounts = useQuery({ ...principalReads.accounts(tenant), enabled: !unreadable });
  const [open, setOpen] = useState<Open>();
  const columns = useColumns(access, setOpen);
  useCopyAs(accountsEquivalents(tenant));
  const create = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={access.blocked(Permission.SERVICE_ACCOUNT_UPDATE)}
      onClick={() => setOpen({ what: "create" })}
    >
      New service account
    </Button>
  );
  return (
    <Page
      description="Programs and machines. A key of a service account can do what the account can."
      actions={create}
    >
      {unreadable ? (
        <EmptyState icon={<Bot aria-hidden />} title="You can't view service accounts">
          {unreadable}
        </EmptyState>
      ) : accounts.error && !accounts.data ? (
        <Problem error={accounts.error} onRetry={() => void accounts.refetch()} />
      ) : (
        <Card flush>
          <Table
            label="Service accounts"
            rows={accounts.data}
            rowKey={(account) => account.id}
            initialSort={{ column: "name", descending: false }}
            columns={columns}
            empty={
              <EmptyState
                icon={<Bot aria-hidden />}
                title="No service accounts yet"
                action={create}
                snippet={<CodeBlock language="shell" label="Create one" code={firstAccount(tenant)} />}
              >
                Create one for each program, so that you can see what it does and stop it alone.
              </EmptyState>
            }
          />
        </Card>
      )}
      <Suspense>
        <Opened access={access} open={open} setOpen={setOpen} />
      </Suspense>
    </Page>
  );
}

function useColumns(access: Access, setOpen: (open: Open) => void): Column<ServiceAccount>[] {
  const { tenant } = access;
  const disable = useChange(
    tenant,
    ({ id, etag, disabled }: ServiceAccount) =>
      principals.accounts.updateServiceAccount({
        tenant,
        serviceAccountId: id,
        etag,
        disabled: !disabled,
        updateMask: { paths: ["disabled"] },
      }),
    {
      done: ({ serviceAccount }) =>
        serviceAccount?.disabled
          ? `Disabled ${serviceAccount.name}. Its keys stop within a second`
          : `Enabled ${serviceAccount?.name}`,
    },
  );
  return [
    {
      id: "name",
      header: "Name",
      phone: "title",
      sort: (account) => account.name,
      cell: (account) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-medium wrap-anywhere">{account.name}</span>
          {account.disabled ? (
            <Badge tone="warn" icon={<CirclePause aria-hidden />}>
              disabled
            </Badge>
          ) : null}
          {account.description ? (
            <span className="block w-full text-12 wrap-anywhere text-ink-3">{account.description}</span>
          ) : null}
        </span>
      ),
    },
    {
      id: "roles",
      header: "Roles in the tenant",
      cell: (account) => <RoleBadges roles={account.roles} />,
    },
    {
      id: "keys",
      header: "Keys",
      align: "right",
      width: "w-20",
      sort: (account) => account.keys,
      cell: (account) => <span className="nums">{account.keys}</span>,
    },
    {
      id: "created",
      header: "Created",
      width: "w-32",
      sort: (account) => dateOf(account.createdAt)?.getTime() ?? 0,
      cell: (account) => <Time at={dateOf(account.createdAt)} className="text-ink-2" />,
    },
    actionsColumn(
      { width: "w-52", phone: "block", blockedBecause: access.blocked(Permission.SERVICE_ACCOUNT_UPDATE) },
      (account) => [
        {
          label: `Keys of ${account.name}`,
          icon: <KeyRound aria-hidden />,
          blockedBecause: undefined,
          onClick: () => setOpen({ what: "keys", account }),
        },
        {
          label: `Trusts of ${account.name}`,
          icon: <Handshake aria-hidden />,
          blockedBecause: undefined,
          onClick: () => setOpen({ what: "trusts", account }),
        },
        {
          label: `Access of ${account.name}`,
          icon: <ShieldCheck aria-hidden />,
          blockedBecause: access.blocked(Permission.ROLE_READ),
          onClick: () => setOpen({ what: "access", account }),
        },
        {
          label: `Edit ${account.name}`,
          icon: <Pencil aria-hidden />,
          onClick: () => setOpen({ what: "edit", account }),
        },
        {
          label: `${account.disabled ? "Enable" : "Disable"} ${account.name}`,
          icon: account.disabled ? <CirclePlay aria-hidden /> : <CirclePause aria-hidden />,
          onClick: () => disable.mutate(account),
        },
        {
          label: `Delete ${account.name}`,
          icon: <Trash2 aria-hidden />,
          danger: true,
          onClick: () => setOpen({ what: "delete", account }),
        },
      ],
    ),
  ];
}

interface OpenedProps {
  access: Access;
  open: Open | undefined;
  setOpen: (open: Open | undefined) => void;
}

function Opened({ access, open, setOpen }: OpenedProps) {
  const close = () => setOpen(undefined);
  const namespaces = useQuery(reads.namespaces(access.tenant));
  switch (open?.what) {
    case "create":
      return <AccountDialog access={access} onClose={close} />;
    case "edit":
      return <AccountDialog access={access} account={open.account} onClose={close} />;
    case "delete":
      return <DeleteDialog tenant={access.tenant} account={open.account} onClose={close} />;
    case "access":
      return (
        <AccessDialog
          access={access}
          principalId={open.account.id}
          principal={open.account.name}
          onClose={close}
        />
      );
    case "keys":
      return (
        <KeysDialog
          access={access}
          account={open.account}
          onNew={() => setOpen({ what: "new-key", account: open.account })}
          onClose={close}
        />
      );
    case "trusts":
      return (
        <TrustsDialog
          access={access}
          account={open.account}
          made={open.made}
          onNew={() => setOpen({ what: "new-trust", account: open.account })}
          onClose={close}
        />
      );
    case "new-trust":
      return (
        <TrustDialog
          access={access}
          account={open.account}
          onClose={() => setOpen({ what: "trusts", account: open.account })}
          onSaved={(made) => setOpen({ what: "trusts", account: open.account, made })}
        />
      );
    case "new-key":
      return (
        <CreateDialog
          access={access}
          owner={open.account.id}
          namespaces={(namespaces.data ?? []).map(({ name }) => name)}
          onClose={close}
          onCreated={(name, secret) => setOpen({ what: "secret", name, secret })}
        />
      );
    case "secret":
      return (
        <SecretDialog
          title={`The key ${open.name}`}
          secret={open.secret}
          url={access.tenantUrl}
          onClose={close}
        />
      );
    default:
      return null;
  }
}
