import { ScrollText, TriangleAlert } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Badge } from "~/components/ui/badge";
import { EmptyState } from "~/components/ui/empty";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { AuditEvent } from "~/gen/corvo/cloud/v1/audit_pb";
import { dateOf } from "~/lib/proto-time";
import { actionName, caveatOf, changesOf, targetOf } from "./words";

/** What the log is narrowed to, as the address of its page has it. */
export type Narrowing = { action?: string; actor?: string; namespace?: string; target?: string };

interface EventsProps {
  rows: readonly AuditEvent[] | undefined;
  /** Whether there are older ones. */
  more: boolean;
  /** Somebody asks for entries of one kind. */
  narrow: (change: Narrowing) => void;
  /** Title of an empty table; below it, what will appear there. */
  empty: string;
  children: ReactNode;
}

/** Entries of the audit log. */
export function Events({ rows, more, narrow, empty, children }: EventsProps) {
  return (
    <Table
      label="audit events"
      rows={rows}
      rowKey={(event) => event.id}
      columns={columns(narrow)}
      more={more}
      empty={
        <EmptyState icon={<ScrollText aria-hidden />} title={empty}>
          {children}
        </EmptyState>
      }
    />
  );
}

function columns(narrow: (change: Narrowing) => void): Column<AuditEvent>[] {
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

function What({ event, narrow }: { event: AuditEvent; narrow: (change: Narrowing) => void }) {
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
