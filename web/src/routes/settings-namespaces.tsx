import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useRouteContext } from "@tanstack/react-router";
import { Boxes, History, Lock, LockOpen, Plus, Trash2 } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Code, CodeBlock } from "~/components/ui/code";
import { CopyButton } from "~/components/ui/copy";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { control } from "~/data/control";
import { reads } from "~/data/queries";
import { Permission, Sync } from "~/gen/corvo/cloud/v1/access_pb";
import type { Namespace } from "~/gen/corvo/cloud/v1/tenant_pb";
import { dateOf } from "~/lib/proto-time";
import { ageText } from "~/lib/retention";

// Opened on demand, loaded on demand.
const NamespaceDialog = lazy(() => import("~/features/namespaces/namespace-dialog"));
const RetentionDialog = lazy(() => import("~/features/namespaces/retention-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

const snippet = `resource "corvo_namespace" "staging" {
  name = "staging"
}`;

export function NamespacesPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const namespaces = useQuery(reads.namespaces(tenant));
  const [creating, setCreating] = useState(false);
  const blocked = access.blocked(Permission.NAMESPACE_CREATE);
  const create = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => setCreating(true)}
    >
      New namespace
    </Button>
  );
  return (
    <Page
      description="Each namespace has its own jobs, queues and keys. Use one per environment or team."
      actions={create}
    >
      {namespaces.error && !namespaces.data ? (
        <Problem error={namespaces.error} onRetry={() => void namespaces.refetch()} />
      ) : (
        <Card flush>
          <NamespaceTable tenant={tenant} access={access} rows={namespaces.data} create={create} />
        </Card>
      )}
      <Suspense>
        {creating ? <NamespaceDialog tenant={tenant} onClose={() => setCreating(false)} /> : null}
      </Suspense>
    </Page>
  );
}

interface NamespaceTableProps {
  tenant: string;
  access: Access;
  rows: Namespace[] | undefined;
  create: ReactNode;
}

function NamespaceTable({ tenant, access, rows, create }: NamespaceTableProps) {
  const [deleting, setDeleting] = useState<Namespace>();
  const [keeping, setKeeping] = useState<Namespace>();
  const protect = useChange(
    tenant,
    (namespace: Namespace) =>
      control.namespaces.updateNamespace({
        tenant,
        namespace: namespace.id,
        deleteProtection: !namespace.deleteProtection,
        updateMask: { paths: ["delete_protection"] },
        etag: namespace.etag,
      }),
    {
      done: (answer) =>
        answer.namespace?.deleteProtection ? "Deletion protection is on" : "Deletion protection is off",
    },
  );
  const remove = useChange(
    tenant,
    (namespace: Namespace) =>
      control.namespaces.deleteNamespace({ tenant, namespace: namespace.id, etag: namespace.etag }),
    { quiet: true, done: () => "Namespace deleted" },
  );
  return (
    <>
      <Table
        label="namespaces"
        rows={rows}
        rowKey={(namespace) => namespace.id}
        initialSort={{ column: "name", descending: false }}
        empty={
          <EmptyState
            icon={<Boxes aria-hidden />}
            title="No namespaces yet"
            action={create}
            snippet={<CodeBlock language="hcl" label="Terraform" code={snippet} />}
          >
            A namespace contains jobs and queues, and keys that only work there.
          </EmptyState>
        }
        columns={[
          {
            id: "name",
            header: "Name",
            phone: "title",
            sort: (namespace) => namespace.name,
            cell: (namespace) => (
              <span className="flex flex-wrap items-center gap-2">
                <Link
                  to="/$tenant/$namespace"
                  params={{ tenant, namespace: namespace.name }}
                  className="font-medium hover:underline"
                >
                  {namespace.name}
                </Link>
                <SyncBadge sync={namespace.sync} />
                {namespace.deleteProtection ? <Badge icon={<Lock aria-hidden />}>protected</Badge> : null}
              </span>
            ),
          },
          {
            id: "id",
            header: "ID",
            cell: (namespace) => (
              <span className="inline-flex items-center gap-1 text-ink-2">
                <Code>{namespace.id}</Code>
                <CopyButton text={namespace.id} label={`Copy ID of ${namespace.name}`} />
              </span>
            ),
          },
          {
            id: "retention",
            header: "Completed jobs kept",
            width: "w-48",
            cell: (namespace) => <Kept namespace={namespace} />,
          },
          {
            id: "created",
            header: "Created",
            width: "w-36",
            sort: (namespace) => dateOf(namespace.createdAt)?.getTime() ?? 0,
            cell: (namespace) => <Time at={dateOf(namespace.createdAt)} className="text-ink-2" />,
          },
          actionsColumn(
            {
              width: "w-28",
              phone: "corner",
              blockedBecause: access.blockedEverywhere(Permission.NAMESPACE_UPDATE),
            },
            (namespace: Namespace) => [
              {
                label: `Retention of ${namespace.name}`,
                icon: <History aria-hidden />,
                onClick: () => setKeeping(namespace),
              },
              {
                label: `Turn ${namespace.deleteProtection ? "off" : "on"} deletion protection for ${namespace.name}`,
                icon: namespace.deleteProtection ? <LockOpen aria-hidden /> : <Lock aria-hidden />,
                onClick: () => protect.mutate(namespace),
              },
              {
                label: `Delete ${namespace.name}`,
                icon: <Trash2 aria-hidden />,
                danger: true,
                blockedBecause:
                  access.blockedEverywhere(Permission.NAMESPACE_DELETE) ??
                  (namespace.deleteProtection ? "Turn off deletion protection first." : undefined),
                onClick: () => setDeleting(namespace),
              },
            ],
          ),
        ]}
      />
      <Suspense>
        {keeping ? (
          <RetentionDialog tenant={tenant} namespace={keeping} onClose={() => setKeeping(undefined)} />
        ) : null}
        {deleting ? (
          <Confirm
            onClose={() => setDeleting(undefined)}
            title={`Delete ${deleting.name}?`}
            confirmLabel="Delete namespace"
            typeToConfirm={deleting.name}
            onConfirm={() => remove.mutateAsync(deleting)}
          >
            This deletes its jobs and queues, and its keys stop working within a second. This can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </>
  );
}

/** How long completed jobs are kept, and who says so. */
function Kept({ namespace }: { namespace: Namespace }) {
  const seconds = Number(namespace.effectiveRetention?.completedSeconds ?? 0);
  if (!seconds) return "–";
  return (
    <span className="nums">
      {ageText(seconds)}{" "}
      <span className="text-ink-3">
        {namespace.retention?.completedSeconds === namespace.effectiveRetention?.completedSeconds
          ? "set here"
          : namespace.retention?.completedSeconds
            ? "plan maximum"
            : "plan default"}
      </span>
    </span>
  );
}

function SyncBadge({ sync }: { sync: Sync }) {
  if (sync === Sync.PENDING) return <Badge tone="warn">not active yet</Badge>;
  if (sync === Sync.DELETING) return <Badge tone="danger">being deleted</Badge>;
  return null;
}
