import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { CircleAlert, CirclePause, Clock, Sparkles } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { buttonClass } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { Skeleton, SkeletonRows } from "~/components/ui/skeleton";
import { StateBadge, StateIcon } from "~/components/ui/state-badge";
import { Time, useNow } from "~/components/ui/time";
import type { Queue } from "~/data/jobs-api";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { queuesEquivalents } from "~/lib/equivalents";
import { compact, count, plural } from "~/lib/numbers";
import { type Attention, attention, type Totals, totals } from "~/lib/overview";
import type { JobState } from "~/lib/states";
import { duration } from "~/lib/time";

const route = getRouteApi("/$tenant/$namespace/");
const Onboarding = lazy(async () => ({
  default: (await import("~/components/onboarding/onboarding")).Onboarding,
}));

/** The activity of a namespace; in an empty one, how to enqueue the first job. */
export function OverviewPage() {
  const scope = route.useParams();
  const { view } = route.useSearch();
  const queues = useQuery(reads.queues(scope));
  const [begun, setBegun] = useState(false);
  useCopyAs(queuesEquivalents(queues.data, scope.namespace));

  if (queues.error && !queues.data) {
    return (
      <Page>
        <Problem error={queues.error} onRetry={() => void queues.refetch()} />
      </Page>
    );
  }
  // Once begun, the first steps stay until somebody leaves them: the page must not
  // change under a person who watches the first job.
  if (!begun && view === undefined && queues.data && isUntouched(queues.data)) setBegun(true);
  if (view === "start" || (view === undefined && begun)) return <Start scope={scope} />;
  return <Numbers scope={scope} queues={queues.data} />;
}

function isUntouched(queues: readonly Queue[]): boolean {
  return queues.every((queue) => queue.enqueued === 0);
}

function Start({ scope }: { scope: Scope }) {
  return (
    <Page
      title="Run your first job"
      description="Copy and paste to enqueue a job, then watch each step complete."
      actions={
        <Link
          to="/$tenant/$namespace"
          params={scope}
          search={{ view: "numbers" }}
          className={buttonClass("ghost")}
        >
          Skip
        </Link>
      }
    >
      <Suspense fallback={<SkeletonRows rows={8} label="Loading" />}>
        <Onboarding scope={scope} />
      </Suspense>
    </Page>
  );
}

function Numbers({ scope, queues }: { scope: Scope; queues: readonly Queue[] | undefined }) {
  const sum = queues && totals(queues);
  return (
    <Page
      description={queues ? `${plural(queues.length, "queue")} in ${scope.namespace}` : "Loading"}
      actions={
        <Link
          to="/$tenant/$namespace"
          params={scope}
          search={{ view: "start" }}
          className={buttonClass("secondary")}
        >
          <Sparkles aria-hidden />
          Get started
        </Link>
      }
    >
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Tile
          scope={scope}
          label="Waiting"
          value={sum?.waiting}
          states={["pending", "scheduled", "retrying"]}
          note={sum ? waitingNote(sum) : ""}
        />
        <Tile
          scope={scope}
          label="Active"
          value={sum?.active}
          states={["active"]}
          note={sum ? `In ${plural(sum.busy, "queue")}` : ""}
        />
        <Tile
          scope={scope}
          label="Completed"
          value={sum?.completed}
          states={["completed"]}
          note="In this namespace"
        />
        <Tile
          scope={scope}
          label="Dead"
          value={sum?.dead}
          states={["dead"]}
          note={sum ? (sum.dead ? "Failed for good" : "No dead jobs") : ""}
          alarm={Boolean(sum?.dead)}
        />
      </div>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-5">
          <NeedsAttention scope={scope} queues={queues} />
          <Busiest scope={scope} queues={queues} />
        </div>
        <Failures scope={scope} />
      </div>
    </Page>
  );
}

/** Jobs that are scheduled or retry later have no oldest one: none of them is late. */
function waitingNote({ oldest, waiting }: Totals): ReactNode {
  if (oldest) return <Oldest at={oldest} />;
  return waiting > 0 ? "Pending, scheduled or retrying" : "No jobs waiting";
}

function Oldest({ at }: { at: string }) {
  const now = useNow();
  return <>Oldest: {duration(now - Date.parse(at), 1)}</>;
}

interface TileProps {
  scope: Scope;
  label: string;
  value: number | undefined;
  states: JobState[];
  note: ReactNode;
  alarm?: boolean;
}

function Tile({ scope, label, value, states, note, alarm }: TileProps) {
  return (
    <Link
      to="/$tenant/$namespace/jobs"
      params={scope}
      search={{ state: states }}
      className="group rounded-xl border border-line bg-surface px-4 py-3 shadow-1 transition-colors hover:border-line-strong"
    >
      <span className="flex items-center gap-1.5 text-12 font-medium text-ink-3">
        <StateIcon
          state={states[0] ?? "pending"}
          className={alarm ? "size-3.5 text-danger-text" : "size-3.5"}
        />
        {label}
      </span>
      {value === undefined ? (
        <Skeleton className="my-2 h-5 w-16" />
      ) : (
        <span className="nums mt-0.5 block text-26 font-semibold tracking-tight" title={count(value)}>
          {compact(value)}
        </span>
      )}
      <span className="block truncate text-12 text-ink-3">{note}</span>
    </Link>
  );
}

const attentionIcons = { dead: CircleAlert, paused: CirclePause, stuck: Clock, waiting: Clock } as const;
const NAMED_MAX = 4;

function NeedsAttention({ scope, queues }: { scope: Scope; queues: readonly Queue[] | undefined }) {
  const now = useNow();
  const items = queues ? attention(queues, now) : [];
  return (
    <Card title="Needs attention" flush>
      {queues === undefined ? (
        <SkeletonRows rows={4} columns={2} />
      ) : items.length === 0 ? (
        <p className="px-4 py-8 text-center text-13 text-ink-3">All queues are healthy.</p>
      ) : (
        <ul className="divide-y divide-line">
          {items.map((item) => {
            const Icon = attentionIcons[item.kind];
            return (
              <li key={item.kind} className="flex items-start gap-3 px-4 py-2.5">
                <Icon
                  aria-hidden
                  className={`mt-0.5 size-4 shrink-0 ${item.kind === "dead" || item.kind === "stuck" ? "text-danger-text" : "text-warn-text"}`}
                />
                <span className="min-w-0">
                  <span className="block text-13 font-medium wrap-anywhere">{item.title}</span>
                  <span className="block text-12 text-ink-3">{item.detail}</span>
                  <span className="mt-0.5 flex flex-wrap gap-x-3 text-12">
                    {item.queues.slice(0, NAMED_MAX).map((name) => (
                      <AttentionLink key={name} scope={scope} item={item} queue={name} />
                    ))}
                    {item.queues.length > NAMED_MAX ? <AttentionLink scope={scope} item={item} /> : null}
                  </span>
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </Card>
  );
}

/** To one queue's part of a cause, or to all of it. */
function AttentionLink({ scope, item, queue }: { scope: Scope; item: Attention; queue?: string }) {
  const className =
    "inline-flex min-h-6 items-center font-medium wrap-anywhere text-accent-text underline-offset-2 hover:underline";
  const text = queue ?? `All ${count(item.queues.length)}`;
  const at = queue ? { queue } : {};
  if (item.kind === "dead")
    return (
      <Link to="/$tenant/$namespace/dead" params={scope} search={at} className={className}>
        {text}
      </Link>
    );
  if (item.kind === "paused" || !queue)
    return (
      <Link to="/$tenant/$namespace/queues" params={scope} className={className}>
        {text}
      </Link>
    );
  return (
    <Link
      to="/$tenant/$namespace/jobs"
      params={scope}
      search={{ queue, state: ["pending"] }}
      className={className}
    >
      {text}
    </Link>
  );
}

function Busiest({ scope, queues }: { scope: Scope; queues: readonly Queue[] | undefined }) {
  const load = (queue: Queue) => queue.active * 1_000 + queue.pending + queue.retrying;
  const list = [...(queues ?? [])].sort((a, b) => load(b) - load(a)).slice(0, 5);
  return (
    <Card
      title="Busiest queues"
      flush
      action={
        <Link
          to="/$tenant/$namespace/queues"
          params={scope}
          className="text-12 font-medium text-accent-text hover:underline"
        >
          View all
        </Link>
      }
    >
      {queues === undefined ? (
        <SkeletonRows rows={4} columns={2} />
      ) : (
        <ul className="divide-y divide-line">
          {list.map((queue) => (
            <li key={queue.name}>
              <Link
                to="/$tenant/$namespace/jobs"
                params={scope}
                search={{ queue: queue.name }}
                className="flex min-h-11 items-center justify-between gap-3 px-4 py-1.5 text-13 hover:bg-hover focus-visible:-outline-offset-2"
              >
                <span className="min-w-0 truncate font-medium">{queue.name}</span>
                <span className="nums shrink-0 text-12 text-ink-3">
                  <span className={queue.active > 0 ? "text-info-text" : undefined}>
                    {compact(queue.active)} active
                  </span>
                  <span aria-hidden> · </span>
                  <span className={queue.pending > 0 ? "text-ink-2" : undefined}>
                    {compact(queue.pending)} pending
                  </span>
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Failures({ scope }: { scope: Scope }) {
  const { data, error } = useQuery(reads.failures(scope));
  return (
    <Card
      title="Latest failures"
      flush
      action={
        <Link
          to="/$tenant/$namespace/jobs"
          params={scope}
          search={{ state: ["dead", "retrying"] }}
          className="text-12 font-medium text-accent-text hover:underline"
        >
          View all
        </Link>
      }
    >
      {error ? (
        <p className="px-4 py-8 text-center text-13 text-ink-3">Couldn't load the latest failures.</p>
      ) : data === undefined ? (
        <SkeletonRows rows={4} columns={2} />
      ) : data.length === 0 ? (
        <p className="px-4 py-8 text-center text-13 text-ink-3">No recent failures.</p>
      ) : (
        <ul className="divide-y divide-line">
          {data.map((job) => (
            <li key={job.id}>
              <Link
                to="/$tenant/$namespace/jobs/$job"
                params={{ ...scope, job: job.id }}
                className="flex items-start gap-3 px-4 py-2.5 hover:bg-hover focus-visible:-outline-offset-2"
              >
                <span className="min-w-0 flex-1">
                  <span className="block truncate text-13 font-medium">{job.queue}</span>
                  <span className="block truncate font-mono text-12 text-ink-3">
                    {job.last_error ?? job.id}
                  </span>
                </span>
                <span className="flex shrink-0 flex-col items-end gap-0.5">
                  <StateBadge state={job.state} />
                  <Time at={job.failed_at ?? job.created_at} className="text-12 text-ink-3" />
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
