import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useRouteContext, useSearch } from "@tanstack/react-router";
import { ScrollText, X } from "lucide-react";
import { useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { adminReads } from "~/data/admin-queries";
import { actionGroups, changesOf } from "~/features/audit/words";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { AuditEvent } from "~/gen/corvo/cloud/v1/audit_pb";
import { dateOf } from "~/lib/proto-time";

type Search = { action?: string; actor?: string; target?: string };

export function AuditPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const search = useSearch({ from: "/$tenant/settings/audit" });
  const navigate = useNavigate({ from: "/$tenant/settings/audit" });
  const blocked = access.blocked(Permission.AUDIT_READ);
  const events = useInfiniteQuery({
    ...adminReads.audit(tenant, {
      action: search.action ?? "",
      actorId: search.actor ?? "",
      targetId: search.target ?? "",
    }),
    enabled: !blocked,
  });
  const rows = events.data?.pages.flatMap((page) => page.events);

  function narrow(change: Search) {
    void navigate({ search: (was) => clean({ ...was, ...change }), replace: true });
  }

  return (
    <Page title="Audit log" description={`Who changed what in ${tenant}, newest first.`}>
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
              className="w-44!"
              options={actionGroups}
              value={(search.action ?? "") as (typeof actionGroups)[number]["value"]}
              onChange={(action) => narrow({ action })}
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
                  Every change of tenants, namespaces, keys, members and sign-on is written down here, in the
                  same transaction as the change.
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
        </>
      )}
    </Page>
  );
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
      cell: (event) => {
        const at = dateOf(event.at);
        return at ? <Time at={at} className="whitespace-nowrap text-ink-2" /> : null;
      },
    },
    {
      id: "action",
      header: "What",
      width: "w-[27%]",
      phone: "title",
      cell: (event) => (
        <span className="flex min-w-0 flex-col items-start">
          <code className="max-w-full font-mono text-12 font-medium wrap-anywhere">{event.action}</code>
          <button
            type="button"
            className="min-h-6 max-w-full rounded-sm text-left wrap-anywhere hover:underline"
            title={`Show only what happened to ${event.targetId}`}
            onClick={() => narrow({ target: event.targetId || undefined })}
          >
            <span className="text-ink-3">{event.targetType.replaceAll("_", " ")} </span>
            {event.target || event.targetId}
          </button>
        </span>
      ),
    },
    {
      id: "actor",
      header: "Who",
      width: "w-[23%]",
      cell: (event) => (
        <span className="flex min-w-0 flex-col items-start max-sm:items-end">
          <span className="inline-flex max-w-full items-center gap-1.5">
            <button
              type="button"
              className="min-h-6 min-w-0 rounded-sm text-left wrap-anywhere hover:underline max-sm:text-right"
              title="Show only what this one did"
              onClick={() => narrow({ actor: event.actorId || undefined })}
            >
              {event.actor || "the service"}
            </button>
            {event.actorType === "user" ? null : <Badge>{event.actorType || "system"}</Badge>}
          </span>
          {event.peer ? <span className="text-12 text-ink-3">from {event.peer}</span> : null}
        </span>
      ),
    },
    {
      id: "changes",
      header: "Change",
      phone: "block",
      phoneSkip: (event) => changesOf(event).length === 0,
      cell: (event) => <Changes event={event} />,
    },
  ];
}

// More than these few stand behind a click.
const SHOWN_AT_ONCE = 3;

function Changes({ event }: { event: AuditEvent }) {
  const [all, setAll] = useState(false);
  const changes = changesOf(event);
  if (changes.length === 0) return <span className="text-ink-3">–</span>;
  // One more line is as short as the button that would hide it.
  const shown = all || changes.length === SHOWN_AT_ONCE + 1 ? changes : changes.slice(0, SHOWN_AT_ONCE);
  return (
    <div className="flex w-full flex-col items-start gap-0.5 py-1 text-12">
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
