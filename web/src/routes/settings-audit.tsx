import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useRouteContext, useSearch } from "@tanstack/react-router";
import { Download, ScrollText, TriangleAlert, X } from "lucide-react";
import { useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { adminReads, useChange } from "~/data/admin-queries";
import { reads } from "~/data/queries";
import { exportAudit } from "~/features/audit/export";
import { SinksCard } from "~/features/audit/sinks-card";
import { actionName, actionOptions, caveatOf, changesOf, targetOf } from "~/features/audit/words";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type AuditEvent, AuditFormat } from "~/gen/corvo/cloud/v1/audit_pb";
import { auditEquivalents } from "~/lib/access-equivalents";
import { dateOf } from "~/lib/proto-time";

type Search = { action?: string; actor?: string; namespace?: string; target?: string };

// How often the newest entries are asked for: those of queues and jobs come some seconds late.
const RENEW_MS = 10_000;

export function AuditPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const search = useSearch({ from: "/$tenant/settings/audit" });
  const navigate = useNavigate({ from: "/$tenant/settings/audit" });
  useCopyAs(auditEquivalents(tenant, search.action));
  const blocked = access.blocked(Permission.AUDIT_READ);
  const events = useInfiniteQuery({
    ...adminReads.audit(tenant, {
      action: search.action ?? "",
      actorId: search.actor ?? "",
      namespace: search.namespace ?? "",
      targetId: search.target ?? "",
    }),
    enabled: !blocked,
    // Whoever reads older pages is not interrupted.
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > 1 ? false : RENEW_MS),
  });
  const namespaces = useQuery({ ...reads.namespaces(tenant), enabled: !blocked });
  const rows = events.data?.pages.flatMap((page) => page.events);

  function narrow(change: Search) {
    void navigate({ search: (was) => clean({ ...was, ...change }), replace: true });
  }

  return (
    <Page
      description={`Who changed what in ${tenant}, newest first.`}
      actions={blocked ? null : <Exports tenant={tenant} blocked={access.blocked(Permission.AUDIT_EXPORT)} />}
    >
      {blocked ? (
        <EmptyState icon={<ScrollText aria-hidden />} title="You can't view the audit log">
          {blocked}
        </EmptyState>
      ) : events.error ? (
        <Problem error={events.error} onRetry={() => void events.refetch()} />
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2">
            <Choice
              label="Action"
              className="w-full! sm:w-60!"
              options={actionOptions(search.action ?? "")}
              value={search.action ?? ""}
              onChange={(action) => narrow({ action })}
            />
            <Choice
              label="Namespace"
              className="w-full! sm:w-60!"
              options={namespaceOptions(
                namespaces.data?.map(({ name }) => name) ?? [],
                search.namespace ?? "",
              )}
              value={search.namespace ?? ""}
              onChange={(namespace) => narrow({ namespace })}
            />
            {search.actor ? (
              <Narrowed label="one actor" onClear={() => narrow({ actor: undefined })} />
            ) : null}
            {search.target ? (
              <Narrowed label="one target" onClear={() => narrow({ target: undefined })} />
            ) : null}
          </div>
          <Card flush>
            <Table
              label="audit events"
              rows={rows}
              rowKey={(event) => event.id}
              columns={columns(narrow)}
              empty={
                <EmptyState icon={<ScrollText aria-hidden />} title="No matching entries">
                  Changes to settings, and what people and keys do to queues and jobs, appear here within a
                  few seconds.
                </EmptyState>
              }
            />
          </Card>
          {events.hasNextPage ? (
            <Button
              className="self-center"
              busy={events.isFetchingNextPage}
              onClick={() => void events.fetchNextPage()}
            >
              Show older
            </Button>
          ) : null}
          <SinksCard tenant={tenant} access={access} />
        </>
      )}
    </Page>
  );
}

function Exports({ tenant, blocked }: { tenant: string; blocked: string | undefined }) {
  const run = useChange(tenant, (format: AuditFormat) => exportAudit(tenant, format), {
    done: () => "Audit log exported",
  });
  return (
    <>
      <Button
        icon={<Download aria-hidden />}
        blockedBecause={blocked}
        busy={run.isPending && run.variables === AuditFormat.NATIVE}
        onClick={() => run.mutate(AuditFormat.NATIVE)}
      >
        Export log
      </Button>
      <Button
        icon={<Download aria-hidden />}
        blockedBecause={blocked}
        busy={run.isPending && run.variables === AuditFormat.OCSF}
        onClick={() => run.mutate(AuditFormat.OCSF)}
      >
        Export as OCSF
      </Button>
    </>
  );
}

/** The tenant's namespaces, and the one of the link, which may be deleted. */
function namespaceOptions(names: string[], chosen: string) {
  const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  return [{ value: "", label: "All namespaces" }, ...all.map((name) => ({ value: name, label: name }))];
}

/** An empty filter does not stand in the URL. */
function clean(search: Search): Search {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value));
}

function Narrowed({ label, onClear }: { label: string; onClear: () => void }) {
  return (
    <Button size="sm" icon={<X aria-hidden />} onClick={onClear} aria-label={`Show more than ${label}`}>
      {label}
    </Button>
  );
}

function columns(narrow: (change: Search) => void): Column<AuditEvent>[] {
  return [
    {
      id: "at",
      header: "When",
      width: "w-32",
      phone: "corner",
      cell: (event) => <Time at={dateOf(event.at)} className="whitespace-nowrap text-ink-2" />,
    },
    {
      id: "action",
      header: "What",
      width: "w-[25%]",
      phone: "title",
      cell: (event) => <What event={event} narrow={narrow} />,
    },
    {
      id: "actor",
      header: "Who",
      width: "w-[21%]",
      cell: (event) => (
        <span className="flex min-w-0 flex-col items-start max-sm:items-end">
          <span className="inline-flex max-w-full items-center gap-1.5">
            <button
              type="button"
              className="min-h-6 min-w-0 rounded-sm text-left wrap-anywhere hover:underline max-sm:text-right"
              title={`Show only what ${event.actorId || "Corvo"} did`}
              onClick={() => narrow({ actor: event.actorId || undefined })}
            >
              {event.actor || "Corvo"}
            </button>
            {event.actorType === "user" ? null : <Badge>{event.actorType || "system"}</Badge>}
          </span>
          {event.peer ? <span className="text-12 text-ink-3">from {event.peer}</span> : null}
        </span>
      ),
    },
    {
      id: "namespace",
      header: "Namespace",
      width: "w-[13%]",
      phoneSkip: (event) => !event.namespace,
      cell: (event) =>
        event.namespace ? (
          <button
            type="button"
            className="min-h-6 rounded-sm text-left wrap-anywhere hover:underline max-sm:text-right"
            title={`Show only ${event.namespace}`}
            onClick={() => narrow({ namespace: event.namespace })}
          >
            {event.namespace}
          </button>
        ) : (
          <span className="text-ink-3">–</span>
        ),
    },
    {
      id: "changes",
      header: "Details",
      phone: "block",
      phoneSkip: (event) => changesOf(event).length === 0 && !caveatOf(event),
      cell: (event) => <Changes event={event} />,
    },
  ];
}

function What({ event, narrow }: { event: AuditEvent; narrow: (change: Search) => void }) {
  const target = targetOf(event);
  return (
    <span className="flex min-w-0 flex-col items-start">
      <button
        type="button"
        className="min-h-6 max-w-full rounded-sm text-left font-medium wrap-anywhere hover:underline"
        title={`Show only ${event.action}`}
        onClick={() => narrow({ action: event.action })}
      >
        {actionName(event.action)}
      </button>
      {event.targetId ? (
        <button
          type="button"
          className="min-h-6 max-w-full rounded-sm text-left wrap-anywhere hover:underline"
          title={`Show only what happened to ${event.targetId}`}
          onClick={() => narrow({ target: event.targetId })}
        >
          {target.kind ? <span className="text-ink-3">{target.kind} </span> : null}
          {target.name}
        </button>
      ) : target.name ? (
        <span className="text-ink-2">{target.name}</span>
      ) : null}
    </span>
  );
}

// More than these few stand behind a click.
const SHOWN_AT_ONCE = 3;

function Changes({ event }: { event: AuditEvent }) {
  const [all, setAll] = useState(false);
  const changes = changesOf(event);
  const caveat = caveatOf(event);
  if (changes.length === 0 && !caveat) return <span className="text-ink-3">–</span>;
  // One more line is as short as the button that would hide it.
  const shown = all || changes.length === SHOWN_AT_ONCE + 1 ? changes : changes.slice(0, SHOWN_AT_ONCE);
  return (
    <div className="flex w-full flex-col items-start gap-0.5 py-1 text-12">
      {caveat ? (
        <div className="flex flex-col items-start gap-1 pb-1">
          <Badge tone="warn" icon={<TriangleAlert aria-hidden />}>
            {caveat.label}
          </Badge>
          <p className="text-ink-2">{caveat.text}</p>
        </div>
      ) : null}
      <dl className="flex w-full flex-col gap-0.5">
        {shown.map((change) => (
          <div key={change.field} className="grid grid-cols-[7.5rem_minmax(0,1fr)] gap-x-3">
            <dt className="text-ink-3">{change.field}</dt>
            <dd className="font-mono wrap-anywhere">
              {change.before === "–" ? null : (
                <>
                  <span className="text-ink-3 line-through decoration-line-strong">{change.before}</span>
                  <span aria-hidden> → </span>
                  <span className="sr-only"> became </span>
                </>
              )}
              {change.after}
            </dd>
          </div>
        ))}
      </dl>
      {shown.length < changes.length ? (
        <button
          type="button"
          className="min-h-6 rounded-sm font-medium text-accent-text hover:underline"
          onClick={() => setAll(true)}
        >
          {changes.length - shown.length} more
        </button>
      ) : null}
    </div>
  );
}
