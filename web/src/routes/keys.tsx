import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import { Ban, KeyRound, Plus, RefreshCw } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Code, CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { Switch } from "~/components/ui/switch";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { reads } from "~/data/queries";
import { rolesOf } from "~/features/keys/roles";
import { Permission, Sync } from "~/gen/corvo/cloud/v1/access_pb";
import { type ApiKey, KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const CreateDialog = lazy(() => import("~/features/keys/create-dialog"));
const RotateDialog = lazy(() => import("~/features/keys/rotate-dialog"));
const SecretDialog = lazy(() => import("~/features/keys/secret-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

const snippet = `ephemeral "corvo_api_key_secret" "worker" {}

resource "corvo_api_key" "worker" {
  name              = "worker"
  namespaces        = ["default"]
  roles             = ["producer", "worker"]
  secret_wo         = ephemeral.corvo_api_key_secret.worker.key
  secret_wo_version = 1
}`;

type Open =
  | { what: "create" }
  | { what: "rotate" | "revoke"; key: ApiKey }
  | { what: "secret"; title: string; secret: string };

export function KeysPage() {
  const { tenant, namespace } = useParams({ from: "/$tenant/$namespace/keys" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const [showRevoked, setShowRevoked] = useState(false);
  const [open, setOpen] = useState<Open>();
  const mayRead = access.blocked(Permission.KEY_READ);
  const keys = useQuery({ ...adminReads.keys(tenant, showRevoked), enabled: !mayRead });
  const namespaces = useQuery(reads.namespaces(tenant));
  const blocked = access.blocked(Permission.KEY_WRITE);
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
      description="Keys for workers, producers and Terraform. Revoked keys stop working within a second."
      actions={create}
    >
      {mayRead ? (
        <EmptyState icon={<KeyRound aria-hidden />} title="You can't view API keys">
          {mayRead}
        </EmptyState>
      ) : keys.error ? (
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
            columns={columns(access, names, setOpen)}
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
        <OpenDialog
          tenant={tenant}
          namespace={namespace}
          access={access}
          namespaces={[...names.values()]}
          open={open}
          setOpen={setOpen}
        />
      </Suspense>
    </Page>
  );
}

function columns(
  access: Access,
  names: Map<string, string>,
  setOpen: (open: Open) => void,
): Column<ApiKey>[] {
  const blocked = access.blocked(Permission.KEY_WRITE);
  return [
    {
      id: "name",
      header: "Name",
      phone: "title",
      sort: (key) => key.name,
      cell: (key) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{key.name}</span>
          <KeyState apiKey={key} />
        </span>
      ),
    },
    { id: "prefix", header: "Prefix", cell: (key) => <Code>{key.prefix}…</Code> },
    {
      id: "may",
      header: "Permissions",
      cell: (key) => (
        <span>
          {rolesOf(key)}
          <span className="text-ink-3">{whereOf(key, names)}</span>
        </span>
      ),
    },
    {
      id: "created",
      header: "Created",
      width: "w-32",
      sort: (key) => dateOf(key.createdAt)?.getTime() ?? 0,
      cell: (key) => <Time at={dateOf(key.createdAt)} className="text-ink-2" />,
    },
    {
      id: "expires",
      header: "Expires",
      width: "w-32",
      cell: (key) => <Time at={dateOf(key.expiresAt)} none="never" className="text-ink-2" />,
    },
    actionsColumn({ width: "w-20", phone: "corner", blockedBecause: blocked }, (key) =>
      key.revokedAt
        ? []
        : [
            {
              label: `Rotate ${key.name}`,
              icon: <RefreshCw aria-hidden />,
              onClick: () => setOpen({ what: "rotate", key }),
            },
            {
              label: `Revoke ${key.name}`,
              icon: <Ban aria-hidden />,
              danger: true,
              onClick: () => setOpen({ what: "revoke", key }),
            },
          ],
    ),
  ];
}

function whereOf(key: ApiKey, names: Map<string, string>): string {
  if (key.kind === KeyKind.MANAGEMENT) return "";
  if (key.namespaceIds.length === 0) return " in all namespaces";
  return ` in ${key.namespaceIds.map((id) => names.get(id) ?? "a deleted namespace").join(", ")}`;
}

function KeyState({ apiKey }: { apiKey: ApiKey }) {
  if (apiKey.revokedAt) return <Badge>revoked</Badge>;
  const ends = dateOf(apiKey.expiresAt);
  if (ends && ends.getTime() < Date.now()) return <Badge tone="danger">expired</Badge>;
  if (apiKey.versions.length > 1) return <Badge tone="warn">2 active secrets</Badge>;
  if (apiKey.sync === Sync.PENDING) return <Badge tone="warn">not active yet</Badge>;
  return null;
}

interface OpenDialogProps {
  tenant: string;
  namespace: string;
  access: Access;
  namespaces: string[];
  open: Open | undefined;
  setOpen: (open: Open | undefined) => void;
}

function OpenDialog({ tenant, namespace, access, namespaces, open, setOpen }: OpenDialogProps) {
  const revoke = useChange(tenant, (keyId: string) => admin.keys.revokeApiKey({ tenant, keyId }), {
    quiet: true,
    done: () => "Key revoked",
  });
  const close = () => setOpen(undefined);
  switch (open?.what) {
    case "create":
      return (
        <CreateDialog
          tenant={tenant}
          namespaces={namespaces}
          namespace={namespace}
          holder={access.role}
          onClose={close}
          onCreated={(name, secret) => setOpen({ what: "secret", title: `The key ${name}`, secret })}
        />
      );
    case "rotate":
      return (
        <RotateDialog
          tenant={tenant}
          apiKey={open.key}
          onClose={close}
          onRotated={(secret) =>
            setOpen({ what: "secret", title: `New secret for ${open.key.name}`, secret })
          }
        />
      );
    case "secret":
      return <SecretDialog title={open.title} secret={open.secret} url={access.tenantUrl} onClose={close} />;
    case "revoke":
      return (
        <Confirm
          onClose={close}
          title={`Revoke ${open.key.name}?`}
          confirmLabel="Revoke key"
          onConfirm={() => revoke.mutateAsync(open.key.id)}
        >
          Anything using <Code>{open.key.prefix}…</Code> loses access within a second. This can't be undone.
        </Confirm>
      );
    default:
      return null;
  }
}
