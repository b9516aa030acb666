import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ArrowRightLeft, PartyPopper, RotateCw, SearchX, Trash2 } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { Rebuilding, updated } from "~/components/jobs/freshness";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { NativeSelect } from "~/components/ui/field";
import { KeyboardHint } from "~/components/ui/kbd";
import { Page } from "~/components/ui/page";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { JobName, More } from "~/components/work/parts";
import { describeError } from "~/data/control";
import { type JobRow, jobsApi } from "~/data/jobs-api";
import { type ErrorGroup, pageApi } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { reads } from "~/data/queries";
import { useRefresh } from "~/data/refresh";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { Groups } from "~/features/dead/groups";
import type { BulkVerb } from "~/features/jobs/bulk-dialog";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { deadReason, groupWords } from "~/lib/dead-reasons";
import { get } from "~/lib/equivalents";
import { count, plural } from "~/lib/numbers";
import { deadEquivalents } from "~/lib/page-equivalents";
import { useRowKeys } from "~/lib/row-keys";

const route = getRouteApi("/$tenant/$namespace/dead");
const Confirm = lazy(() => import("~/components/confirm"));
const BulkDialog = lazy(() => import("~/features/jobs/bulk-dialog"));

const GROUPS_FIRST = 100;
// What the service tells at once, at most.
const GROUPS_MAX = 1_000;

/** Of a group that the service did not count, the count is not known. */
type Known = Pick<ErrorGroup, "id" | "queue"> & Partial<ErrorGroup>;

type Asking =
  | { what: "job"; id: string }
  | { what: "queue"; queue: string; dead: number }
  // The group as it was: it may be gone before the last of its jobs is.
  | { what: "group"; verb: BulkVerb; group: Known };

/** Dead jobs by error; retry one, or all with the same error. */
export function DeadPage() {
  const scope = route.useParams();
  const { queue, group: chosen } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/dead" });
  const rights = useRights(scope);
  const client = useQueryClient();
  const queues = useQuery(reads.queues(scope));
  const { groups, group, onMore } = useGroups(scope, queue, chosen);
  const dead = useInfiniteQuery(pageReads.dead(scope, queue, chosen));
  const [asking, setAsking] = useState<Asking | null>(null);
  const off = (permission: Permission, of: string | undefined = queue) => rights.blocked(permission, of);
  useCopyAs(deadEquivalents(queue, chosen));
  useRefresh(
    pageReads.allDead(scope),
    (event) => event.data?.state === "dead" || event.data?.from === "dead",
  );

  const rows = useMemo(() => dead.data?.pages.flatMap((page) => page.rows), [dead.data]);
  const withDead = (queues.data ?? []).filter((entry) => entry.dead > 0 || entry.name === queue);
  const total = withDead.reduce((sum, entry) => sum + (queue && entry.name !== queue ? 0 : entry.dead), 0);
  const shown = group ?? groupOf(chosen, rows?.[0]);

  const changed = () => client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
  const showAll = () => void navigate({ search: queue ? { queue } : {} });
  const again = useMutation({
    mutationFn: (id: string) => jobsApi.retry(scope, id),
    onSuccess: (_, id) => {
      toast({ title: "Job retried", description: id });
      return changed();
    },
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't retry the job", description: describeError(error) }),
  });

  const queueOf = (id: string) => rows?.find((row) => row.id === id)?.queue;
  const list = useRowKeys<HTMLDivElement>({
    r: (id) => (off(Permission.JOB_RETRY, queueOf(id)) ? undefined : again.mutate(id)),
    d: (id) => (off(Permission.JOB_DELETE, queueOf(id)) ? undefined : setAsking({ what: "job", id })),
  });

  async function confirmed(asked: Exclude<Asking, { what: "group" }>) {
    if (asked.what === "job") {
      await jobsApi.remove(scope, asked.id);
      toast({ title: "Job deleted", description: asked.id });
    } else {
      const { requeued } = await pageApi.requeue(scope, asked.queue);
      toast({ title: `Retried ${plural(requeued, "job")}`, description: `All dead jobs in ${asked.queue}.` });
    }
    await changed();
  }

  const columns: Column<JobRow>[] = [
    {
      id: "error",
      header: "Job",
      phone: "title",
      cell: (row) => (
        <span className="flex min-w-0 flex-col py-0.5">
          <Link
            to="/$tenant/$namespace/jobs/$job"
            params={{ ...scope, job: row.id }}
            search={{ tab: "errors" }}
            preload={false}
            data-row={row.id}
            className="inline-flex min-w-0 min-h-6 items-center font-mono text-12 underline-offset-2 hover:underline"
          >
            <span className="truncate">{row.id}</span>
          </Link>
          <span className="line-clamp-2 font-mono text-12 wrap-anywhere text-danger-text">
            {row.last_error ||
              deadReason(row.dead_reason) ||
              (row.redacted ? "You don't have permission to see its error." : "")}
          </span>
        </span>
      ),
    },
    {
      id: "queue",
      header: "Queue",
      width: "w-36",
      cell: (row) => <span className="wrap-anywhere">{row.queue}</span>,
    },
    {
      id: "attempts",
      header: "Attempts",
      align: "right",
      cell: (row) => <span className="nums">{`${row.attempt} / ${row.max_retries}`}</span>,
    },
    {
      id: "died",
      header: "Died",
      align: "right",
      width: "w-28",
      cell: (row) => <Time at={row.failed_at ?? row.created_at} className="text-ink-2" />,
    },
    actionsColumn({ width: "w-20", phone: "corner" }, ({ id, queue: of }) => [
      {
        label: `Retry ${id}`,
        icon: <RotateCw aria-hidden />,
        shortcut: "r",
        blockedBecause: off(Permission.JOB_RETRY, of),
        onClick: () => again.mutate(id),
      },
      {
        label: `Delete ${id}`,
        icon: <Trash2 aria-hidden />,
        shortcut: "d",
        blockedBecause: off(Permission.JOB_DELETE, of),
        danger: true,
        onClick: () => setAsking({ what: "job", id }),
      },
    ]),
  ];

  const none = rows?.length === 0 && !dead.hasNextPage;
  return (
    <Page
      description={queues.data ? describe(total, queue, updated(groups.data)) : "Loading"}
      actions={
        <>
          <NativeSelect
            aria-label="Queue"
            className="w-52"
            value={queue ?? ""}
            onChange={(name) => void navigate({ search: name ? { queue: name } : {} })}
          >
            <option value="">All queues</option>
            {withDead.map((entry) => (
              <option key={entry.name} value={entry.name}>
                {entry.name} ({count(entry.dead)})
              </option>
            ))}
          </NativeSelect>
          {queue && total > 0 && chosen === undefined ? (
            <Button
              variant="primary"
              icon={<RotateCw aria-hidden />}
              blockedBecause={off(Permission.JOB_RETRY)}
              onClick={() => setAsking({ what: "queue", queue, dead: total })}
            >
              Retry all {count(total)}
            </Button>
          ) : null}
        </>
      }
    >
      <Rebuilding list={groups.data} />
      {dead.error && !rows ? (
        <Problem error={dead.error} onRetry={() => void dead.refetch()} />
      ) : none && chosen === undefined ? (
        <EmptyState
          icon={<PartyPopper aria-hidden />}
          title={queue ? `No dead jobs in ${queue}` : "No dead jobs"}
          action={
            queue ? <Button onClick={() => void navigate({ search: {} })}>Show all queues</Button> : undefined
          }
          snippet={
            <CodeBlock
              language="shell"
              label="List dead jobs"
              code={get(queue ? `/dead?queue=${encodeURIComponent(queue)}` : "/dead")}
            />
          }
        >
          Jobs that run out of attempts, expire or are rejected appear here with their error. You can retry
          them.
        </EmptyState>
      ) : (
        <div className="grid items-start gap-5 lg:grid-cols-[17rem_minmax(0,1fr)]">
          <Groups scope={scope} groups={groups} chosen={chosen} queue={queue} onMore={onMore} />
          {none ? (
            <EmptyState
              icon={<SearchX aria-hidden />}
              title="No dead jobs with this error"
              action={<Button onClick={showAll}>Show all errors</Button>}
            >
              They may have been retried, moved or deleted. New ones appear here.
            </EmptyState>
          ) : (
            <div ref={list} className="flex min-w-0 flex-col gap-3">
              {shown ? (
                <GroupCard
                  group={shown}
                  blocked={(permission) => off(permission, shown.queue)}
                  onAsk={(verb) => setAsking({ what: "group", verb, group: shown })}
                />
              ) : null}
              <Card flush>
                <Table
                  label="Dead jobs"
                  columns={columns}
                  rows={rows}
                  rowKey={(row) => row.id}
                  paged
                  more={dead.hasNextPage}
                />
              </Card>
              <More list={dead} />
              <span className="flex flex-wrap gap-4 px-1 max-sm:hidden">
                <KeyboardHint keys="j">next</KeyboardHint>
                <KeyboardHint keys="r">retry</KeyboardHint>
                <KeyboardHint keys="d">delete</KeyboardHint>
              </span>
            </div>
          )}
        </div>
      )}
      <Suspense>
        {asking?.what === "group" ? (
          <BulkDialog
            scope={scope}
            verb={asking.verb}
            filter={{ queue: asking.group.queue, error_group: asking.group.id }}
            about={{ text: groupWords(asking.group), queue: asking.group.queue }}
            jobs={asking.group.count}
            onClose={() => setAsking(null)}
            onDone={showAll}
          />
        ) : null}
        {asking && asking.what !== "group" ? (
          <Confirm
            onClose={() => setAsking(null)}
            title={
              asking.what === "job"
                ? "Delete this job?"
                : `Retry ${plural(asking.dead, "dead job")} in ${asking.queue}?`
            }
            variant={asking.what === "job" ? "danger" : "primary"}
            confirmLabel={asking.what === "job" ? "Delete job" : "Retry jobs"}
            onConfirm={() => confirmed(asking)}
          >
            {asking.what === "job" ? (
              <>
                This deletes the payload and errors of <JobName id={asking.id} />, and can't be undone.
              </>
            ) : (
              "Each job starts over at its first attempt. Jobs that keep failing become dead again."
            )}
          </Confirm>
        ) : null}
      </Suspense>
    </Page>
  );
}

/** The largest groups, the one that the link names, and how to see more of them. */
function useGroups(scope: Scope, queue: string | undefined, chosen: string | undefined) {
  const [limit, setLimit] = useState(GROUPS_FIRST);
  const groups = useQuery(pageReads.deadGroups(scope, queue, limit));
  const group = groups.data?.groups.find((entry) => entry.id === chosen);
  const more = groups.data?.has_more && limit < GROUPS_MAX;
  // A link may lead to a small one.
  if (chosen !== undefined && !group && more && !groups.isPlaceholderData) setLimit(GROUPS_MAX);
  return { groups, group, onMore: limit < GROUPS_MAX ? () => setLimit(GROUPS_MAX) : undefined };
}

/** A group of which only a job is known, because there are too many groups. */
function groupOf(id: string | undefined, row: JobRow | undefined): Known | undefined {
  if (id === undefined || !row) return undefined;
  const { queue, last_error: error, dead_reason } = row;
  return { id, queue, ...(error ? { error } : {}), ...(dead_reason ? { dead_reason } : {}) };
}

function describe(total: number, queue: string | undefined, late: string | undefined): string {
  const where = queue ? ` in ${queue}` : "";
  const there =
    total === 0
      ? `No dead jobs${where}.`
      : `${plural(total, "dead job")}${where}. They stay until you retry or delete them.`;
  return late ? `${there} ${late}` : there;
}

interface GroupCardProps {
  group: Known;
  blocked: (permission: Permission) => string | undefined;
  onAsk: (verb: BulkVerb) => void;
}

/** The error that the jobs below have in common, and what can be done to all of them. */
function GroupCard({ group, blocked, onAsk }: GroupCardProps) {
  const size = group.count === undefined ? "all" : count(group.count);
  return (
    <section
      aria-label="This error"
      className="flex flex-col gap-3 rounded-xl border border-line bg-surface px-4 py-3 shadow-1"
    >
      <h2 className="line-clamp-4 font-mono text-13 wrap-anywhere text-danger-text">{groupWords(group)}</h2>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-3">
        <p className="min-w-0 text-12 wrap-anywhere text-ink-2">
          {group.count === undefined ? "Jobs" : plural(group.count, "job")} in {group.queue}
          {group.last_at ? (
            <>
              , {group.count === 1 ? "died" : "latest"} <Time at={group.last_at} />
            </>
          ) : null}
          {group.first_at && group.count !== 1 ? (
            <>
              , first <Time at={group.first_at} />
            </>
          ) : null}
        </p>
        <div className="flex flex-wrap gap-2">
          <Button
            size="sm"
            variant="danger-ghost"
            icon={<Trash2 aria-hidden />}
            blockedBecause={blocked(Permission.JOB_DELETE)}
            onClick={() => onAsk("delete")}
          >
            Delete {size}
          </Button>
          <Button
            size="sm"
            icon={<ArrowRightLeft aria-hidden />}
            blockedBecause={blocked(Permission.JOB_MOVE)}
            onClick={() => onAsk("move")}
          >
            Move {size}
          </Button>
          <Button
            size="sm"
            variant="primary"
            icon={<RotateCw aria-hidden />}
            blockedBecause={blocked(Permission.JOB_RETRY)}
            onClick={() => onAsk("retry")}
          >
            Retry {size}
          </Button>
        </div>
      </div>
    </section>
  );
}
