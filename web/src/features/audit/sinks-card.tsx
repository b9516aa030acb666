import { useQuery } from "@tanstack/react-query";
import { CirclePause, CirclePlay, Pencil, Plus, Send, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Code } from "~/components/ui/code";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { placeOf } from "~/features/audit/sinks";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type AuditSink, AuditSinkState } from "~/gen/corvo/cloud/v1/audit_pb";
import { count } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";

const Confirm = lazy(() => import("~/components/confirm"));
const SinkDialog = lazy(() => import("./sink-dialog"));

/** Where the log is sent. */
export function SinksCard({ tenant, access }: { tenant: string; access: Access }) {
  const blocked = access.blocked(Permission.AUDIT_UPDATE);
  const sinks = useQuery(adminReads.auditSinks(tenant));
  const [deleting, setDeleting] = useState<AuditSink>();
  const [editing, setEditing] = useState<AuditSink | "new">();
  const test = useChange(tenant, (sink: AuditSink) => tested(tenant, sink), {
    done: (sink) => `Test event delivered to ${sink.name}`,
  });
  const turn = useChange(tenant, (sink: AuditSink) =>
    admin.audit.updateAuditSink({
      tenant,
      sinkId: sink.id,
      enabled: !sink.enabled,
      updateMask: { paths: ["enabled"] },
    }),
  );
  const remove = useChange(tenant, (sink: AuditSink) =>
    admin.audit.deleteAuditSink({ tenant, sinkId: sink.id }),
  );
  if (sinks.error && !sinks.data) return <Problem error={sinks.error} onRetry={() => void sinks.refetch()} />;
  if (!sinks.data) return null;
  return (
    <Card
      flush
      title="Sinks"
      description="Where new entries are sent: HTTPS, S3 or syslog."
      action={
        <Button
          size="sm"
          icon={<Plus aria-hidden />}
          blockedBecause={blocked}
          onClick={() => setEditing("new")}
        >
          New sink
        </Button>
      }
    >
      {sinks.data.length ? (
        list(sinks.data)
      ) : (
        <p className="p-4 text-13 text-ink-2">
          No sinks yet. Add one to keep the log in your SIEM or bucket, too:{" "}
          <Code>corvo audit add-sink --help</Code>
        </p>
      )}
      <Suspense>
        {editing ? (
          <SinkDialog
            tenant={tenant}
            sink={editing === "new" ? undefined : editing}
            onClose={() => setEditing(undefined)}
          />
        ) : null}
        {deleting ? (
          <Confirm
            title={`Delete sink ${deleting.name}?`}
            confirmLabel="Delete sink"
            onConfirm={() => remove.mutateAsync(deleting)}
            onClose={() => setDeleting(undefined)}
          >
            Entries are no longer sent to {placeOf(deleting)}. What has arrived there stays.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );

  function list(rows: AuditSink[]) {
    return (
      <Table
        label="audit sinks"
        rows={rows}
        rowKey={(sink) => sink.id}
        columns={[
          ...columns,
          actionsColumn({ width: "w-36", phone: "block", blockedBecause: blocked }, (sink: AuditSink) => [
            {
              label: `Send a test event to ${sink.name}`,
              icon: <Send aria-hidden />,
              busy: test.isPending && test.variables === sink,
              onClick: () => test.mutate(sink),
            },
            { label: `Edit ${sink.name}`, icon: <Pencil aria-hidden />, onClick: () => setEditing(sink) },
            {
              label: `${sink.enabled ? "Disable" : "Enable"} ${sink.name}`,
              icon: sink.enabled ? <CirclePause aria-hidden /> : <CirclePlay aria-hidden />,
              busy: turn.isPending && turn.variables === sink,
              onClick: () => turn.mutate(sink),
            },
            {
              label: `Delete ${sink.name}`,
              icon: <Trash2 aria-hidden />,
              danger: true,
              onClick: () => setDeleting(sink),
            },
          ]),
        ]}
      />
    );
  }
}

async function tested(tenant: string, sink: AuditSink): Promise<AuditSink> {
  const answer = await admin.audit.testAuditSink({ tenant, sinkId: sink.id });
  if (!answer.delivered) throw new Error(answer.problem);
  return sink;
}

const columns: Column<AuditSink>[] = [
  {
    id: "name",
    header: "Name",
    phone: "title",
    cell: (sink) => (
      <span className="flex min-w-0 flex-col">
        <span className="font-medium wrap-anywhere">{sink.name}</span>
        <span className="text-12 text-ink-3 wrap-anywhere">{placeOf(sink)}</span>
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    phone: "block",
    cell: (sink) => <State sink={sink} />,
  },
  {
    id: "sent",
    header: "Sent",
    cell: (sink) => (
      <span className="whitespace-nowrap">
        {count(Number(sink.sentSeq))} of {count(Number(sink.latestSeq))}
      </span>
    ),
  },
];

function State({ sink }: { sink: AuditSink }) {
  switch (sink.state) {
    case AuditSinkState.DISABLED:
      return <Badge>Disabled</Badge>;
    case AuditSinkState.FAILING:
      return (
        <span className="flex min-w-0 flex-col items-start gap-0.5">
          <Badge tone="warn">Failing</Badge>
          <span className="text-12 text-ink-2 wrap-anywhere">
            since <Time at={dateOf(sink.failingSince)} />: {sink.lastError}
          </span>
        </span>
      );
  }
  return <Badge tone="ok">Active</Badge>;
}
