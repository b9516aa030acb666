import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useRouteContext } from "@tanstack/react-router";
import { Ban, KeyRound, Pencil, Plus, RefreshCw } from "lucide-react";
import { Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { Switch } from "~/components/ui/switch";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { adminReads } from "~/data/admin-queries";
import { reads } from "~/data/queries";
import { type Open, Opened } from "~/features/keys/opened";
import { KeyState } from "~/features/keys/state";
import { limitsOf, type NamespaceNames } from "~/features/keys/words";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type ApiKey, KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import { keysEquivalents } from "~/lib/access-equivalents";
import { dateOf } from "~/lib/proto-time";

const snippet = `ephemeral "corvo_api_key_secret" "worker" {}

resource "corvo_api_key" "worker" {
  name              = "worker"
  namespaces        = ["default"]
  roles             = ["producer", "worker"]
  secret_wo         = ephemeral.corvo_api_key_secret.worker.key
  secret_wo_version = 1
}`;

export function KeysPage() {
  const { tenant, namespace } = useParams({ from: "/$tenant/$namespace/keys" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const [showRevoked, setShowRevoked] = useState(false);
  const [open, setOpen] = useState<Open>();
  useCopyAs(keysEquivalents(tenant, namespace));
  const mayRead = access.blocked(Permission.KEY_READ);
  const keys = useQuery({ ...adminReads.keys(tenant, showRevoked), enabled: !mayRead });
  const namespaces = useQuery(reads.namespaces(tenant));
  const blocked = access.blocked(Permission.KEY_CREATE);
  const create = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => setOpen({ what: "create" })}
    >
      New key
    </Button>
  );
  const names = new Map(namespaces.data?.map((entry) => [entry.id, entry.name]));

  return (
    <Page
      description="A key can do what its owner can, narrowed by its own limits. Revoked keys stop working within a second."
      actions={create}
    >
      {mayRead ? (
        <EmptyState icon={<KeyRound aria-hidden />} title="You can't view API keys">
          {mayRead}
        </EmptyState>
      ) : keys.error && !keys.data ? (
        <Problem error={keys.error} onRetry={() => void keys.refetch()} />
      ) : (
        <Card
          flush
          footer={
            // biome-ignore lint/a11y/noLabelWithoutControl: the switch inside is its control
            <label className="inline-flex items-center gap-2">
              <Switch label="Show revoked keys" checked={showRevoked} onChange={setShowRevoked} />
              Show revoked keys
            </label>
          }
        >
          <Table
            label="API keys"
            rows={keys.data}
            rowKey={(key) => key.id}
            columns={columns(access, namespace, names, setOpen)}
            rowClass={(key) => (key.revokedAt ? "text-ink-3" : undefined)}
            empty={
              <EmptyState
                icon={<KeyRound aria-hidden />}
                title="No API keys yet"
                action={create}
                snippet={<CodeBlock language="hcl" label="Terraform" code={snippet} />}
              >
                Producers and workers authenticate with an API key. Create one here, or with Terraform, where
                the secret never leaves your machine.
              </EmptyState>
            }
          />
        </Card>
      )}
      <Suspense>
        <Opened namespace={namespace} access={access} names={names} open={open} setOpen={setOpen} />
      </Suspense>
    </Page>
  );
}

function columns(
  access: Access,
  namespace: string,
  names: NamespaceNames,
  setOpen: (open: Open) => void,
): Column<ApiKey>[] {
  return [
    {
      id: "name",
      header: "Name",
      phone: "title",
      sort: (key) => key.name,
      cell: (key) => (
        <span className="flex flex-wrap items-center gap-2">
          <Link
            to="/$tenant/$namespace/keys/$key"
            params={{ tenant: access.tenant, namespace, key: key.id }}
            className="font-medium wrap-anywhere underline-offset-2 hover:underline"
          >
            {key.name}
          </Link>
          <KeyState apiKey={key} />
          <span className="block w-full font-mono text-12 text-ink-3">{key.prefix}…</span>
        </span>
      ),
    },
    {
      id: "owner",
      header: "Owner",
      sort: (key) => key.owner,
      cell: (key) => (
        <span className="wrap-anywhere">
          {key.owner}
          {key.kind === KeyKind.PERSONAL ? <span className="text-ink-3"> (personal)</span> : null}
        </span>
      ),
    },
    {
      id: "may",
      header: "Can do",
      cell: (key) => <span className="wrap-anywhere text-ink-2">{limitsOf(key, names)}</span>,
    },
    {
      id: "used",
      header: "Last used",
      width: "w-28",
      sort: (key) => dateOf(key.lastUsedAt)?.getTime() ?? 0,
      cell: (key) => <Time at={dateOf(key.lastUsedAt)} none="never" className="text-ink-2" />,
    },
    {
      id: "expires",
      header: "Expires",
      width: "w-28",
      cell: (key) => <Time at={dateOf(key.expiresAt)} none="never" className="text-ink-2" />,
    },
    actionsColumn({ width: "w-28", phone: "block" }, (key) =>
      key.revokedAt
        ? []
        : [
            {
              label: `Edit ${key.name}`,
              icon: <Pencil aria-hidden />,
              blockedBecause: access.blocked(Permission.KEY_UPDATE),
              onClick: () => setOpen({ what: "edit", key }),
            },
            {
              label: `Rotate ${key.name}`,
              icon: <RefreshCw aria-hidden />,
              blockedBecause: access.blocked(Permission.KEY_UPDATE),
              onClick: () => setOpen({ what: "rotate", key }),
            },
            {
              label: `Revoke ${key.name}`,
              icon: <Ban aria-hidden />,
              blockedBecause: access.blocked(Permission.KEY_REVOKE),
              danger: true,
              onClick: () => setOpen({ what: "revoke", key }),
            },
          ],
    ),
  ];
}
