import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ShieldQuestionMark, Trash2 } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { toast } from "~/components/ui/toast";
import { type Policy, pageApi } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import type { Scope } from "~/data/token";
import { firstPolicy } from "~/lib/page-equivalents";
import { shortDuration } from "~/lib/wire-duration";

const Confirm = lazy(() => import("~/components/confirm"));

interface PoliciesProps {
  scope: Scope;
  blocked: string | undefined;
  /** The button that creates one. */
  create: ReactNode;
}

/** Which jobs wait for a person. */
export function Policies({ scope, blocked, create }: PoliciesProps) {
  const client = useQueryClient();
  const policies = useQuery(pageReads.policies(scope));
  const [deleted, setDeleted] = useState<Policy | null>(null);

  const columns: Column<Policy>[] = [
    {
      id: "name",
      header: "Policy",
      phone: "title",
      sort: (policy) => policy.name,
      cell: (policy) => (
        <span className="inline-flex flex-wrap items-center gap-2">
          <span className="font-medium wrap-anywhere">{policy.name}</span>
          {policy.enabled ? null : <Badge>off</Badge>}
        </span>
      ),
    },
    { id: "jobs", header: "Holds", phone: "block", cell: (policy) => conditions(policy) },
    {
      id: "approvers",
      header: "Approvers",
      cell: (policy) => (
        <span className="wrap-anywhere">{policy.approvers?.join(", ") || "every operator"}</span>
      ),
    },
    {
      id: "expiry",
      header: "Time limit",
      phoneSkip: (policy) => !policy.expires_after,
      cell: (policy) =>
        policy.expires_after ? (
          `${shortDuration(policy.expires_after)}, then ${policy.on_expire === "approve" ? "approved" : "rejected"}`
        ) : (
          <span className="text-ink-3">none</span>
        ),
    },
    actionsColumn({ width: "w-16", phone: "corner", blockedBecause: blocked }, (policy) => [
      {
        label: `Delete ${policy.name}`,
        icon: <Trash2 aria-hidden />,
        danger: true,
        onClick: () => setDeleted(policy),
      },
    ]),
  ];

  if (policies.error && !policies.data)
    return <Problem error={policies.error} onRetry={() => void policies.refetch()} />;
  return (
    <Card flush>
      <Table
        label="Approval policies"
        columns={columns}
        rows={policies.data}
        rowKey={(policy) => policy.id}
        initialSort={{ column: "name", descending: false }}
        empty={
          <EmptyState
            icon={<ShieldQuestionMark aria-hidden />}
            title="No approval policies"
            action={create}
            snippet={<CodeBlock language="shell" label="Create a policy" code={firstPolicy} />}
          >
            A policy holds jobs in a queue or with a tag until someone approves them. You can also hold a
            single job without a policy.
          </EmptyState>
        }
      />
      <Suspense>
        {deleted ? (
          <Confirm
            onClose={() => setDeleted(null)}
            title={`Delete ${deleted.name}?`}
            confirmLabel="Delete policy"
            onConfirm={async () => {
              await pageApi.deletePolicy(scope, deleted.id);
              toast({ title: `Deleted ${deleted.name}` });
              await client.invalidateQueries({ queryKey: pageReads.policies(scope).queryKey });
            }}
          >
            New jobs run without approval. Jobs that are already held stay held.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );
}

function conditions(policy: Policy): string {
  const parts = [
    ...(policy.queue ? [`queue ${policy.queue}`] : []),
    ...(policy.tag_key ? [`tag ${policy.tag_key}:${policy.tag_value ?? ""}`] : []),
  ];
  return parts.join(policy.mode === "any" ? " or " : " and ") || "nothing";
}
