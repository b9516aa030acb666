import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate, useRouteContext } from "@tanstack/react-router";
import { clsx } from "clsx";
import { ArrowRightLeft, PartyPopper, RotateCw, Trash2 } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button, IconButton } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { NativeSelect } from "~/components/ui/field";
import { KeyboardHint } from "~/components/ui/kbd";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { type ToastOptions, toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { type JobRow, jobsApi } from "~/data/jobs-api";
import { reads } from "~/data/queries";
import { useRefresh } from "~/data/refresh";
import { workApi } from "~/data/work-api";
import { workReads } from "~/data/work-queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { deadReason } from "~/lib/dead-reasons";
import { each } from "~/lib/each";
import { type ErrorGroup, errorGroups } from "~/lib/error-groups";
import { count, plural } from "~/lib/numbers";
import { useRowKeys } from "~/lib/row-keys";
import { deadEquivalents } from "~/lib/work-equivalents";

const route = getRouteApi("/$tenant/$namespace/dead");
const Confirm = lazy(() => import("~/features/confirm"));
const MoveDialog = lazy(() => import("~/features/jobs/move-dialog"));

/** A job whose error or, without one, the reason why it died. */
type Dead = JobRow & { dead_reason?: string };

type Asking =
  | { what: "group" | "delete"; jobs: readonly string[] }
  | { what: "queue"; queue: string; dead: number }
  | { what: "move"; jobs: readonly Dead[] };

/** Jobs that gave up, by what they died of; the way back for one, or for many. */
export function DeadPage() {
  const scope = route.useParams();
  const { queue, error: chosen } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/dead" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const client = useQueryClient();
  const queues = useQuery(reads.queues(scope));
  const dead = useInfiniteQuery(workReads.dead(scope, queue));
  const [asking, setAsking] = useState<Asking | null>(null);
  const blocked = access.blocked(Permission.JOB_OPERATE);
  const { queryKey } = workReads.dead(scope, queue);
  useCopyAs(deadEquivalents(queue));
  useRefresh(queryKey, (event) => event.data?.state === "dead" || event.data?.from === "dead");

  const rows = useMemo(
    () =>
      dead.data?.pages
        .flatMap((page) => page.rows as Dead[])
        .map((row) => (row.last_error ? row : { ...row, last_error: deadReason(row.dead_reason) })),
    [dead.data],
  );
  const groups = useMemo(() => errorGroups(rows ?? []), [rows]);
  const group = groups.find((entry) => entry.pattern === chosen);
  const shown = chosen === undefined ? rows : group?.rows;
  const withDead = (queues.data ?? []).filter((entry) => entry.dead > 0 || entry.name === queue);
  const total = withDead.reduce((sum, entry) => sum + (queue && entry.name !== queue ? 0 : entry.dead), 0);

  const changed = () => client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
  const again = useMutation({
    mutationFn: (id: string) => jobsApi.retry(scope, id),
    onSuccess: (_, id) => {
      toast({ title: "Job retried", description: id });
      return changed();
    },
    onError: (error) =>
      toast({ kind: "error", title: "Couldn't retry the job", description: describeError(error) }),
  });

  const list = useRowKeys<HTMLDivElement>({
    r: (id) => (blocked ? undefined : again.mutate(id)),
    d: (id) => (blocked ? undefined : setAsking({ what: "delete", jobs: [id] })),
  });

  async function confirmed(asked: Exclude<Asking, { what: "move" }>) {
    toast(await done(asked));
    void navigate({ search: queue ? { queue } : {} });
    await changed();
  }

  async function done(asked: Exclude<Asking, { what: "move" }>): Promise<ToastOptions> {
    if (asked.what === "queue") {
      const { requeued } = await workApi.requeue(scope, asked.queue);
      return { title: runAgain(requeued), description: `All dead jobs in ${asked.queue}.` };
    }
    const act = asked.what === "delete" ? jobsApi.remove : jobsApi.retry;
    const failed = await each(asked.jobs, (id) => act(scope, id));
    if (failed[0]) {
      await changed();
      throw failed[0].error;
    }
    return { title: asked.what === "delete" ? "Job deleted" : runAgain(asked.jobs.length) };
  }

  const columns: Column<Dead>[] = [
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
            {row.last_error}
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
    {
      id: "actions",
      header: "Actions",
      hideHeader: true,
      align: "right",
      width: "w-20",
      phone: "corner",
      cell: (row) => (
        <span className="inline-flex gap-1">
          <IconButton
            size="sm"
            label={`Retry ${row.id}`}
            shortcut="r"
            blockedBecause={blocked}
            onClick={() => again.mutate(row.id)}
          >
            <RotateCw aria-hidden />
          </IconButton>
          <IconButton
            size="sm"
            variant="danger-ghost"
            label={`Delete ${row.id}`}
            shortcut="d"
            blockedBecause={blocked}
            onClick={() => setAsking({ what: "delete", jobs: [row.id] })}
          >
            <Trash2 aria-hidden />
          </IconButton>
        </span>
      ),
    },
  ];

  const empty = rows?.length === 0;
  return (
    <Page
      title="Dead letter"
      description={
        queues.data
          ? total === 0
            ? queue
              ? `No dead jobs in ${queue}.`
              : "No dead jobs."
            : `${plural(total, "dead job")}${queue ? ` in ${queue}` : ""}. They stay until you retry or delete them.`
          : "Loading"
      }
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
          {group && shown?.length ? (
            <>
              <Button
                icon={<ArrowRightLeft aria-hidden />}
                blockedBecause={blocked}
                onClick={() => setAsking({ what: "move", jobs: shown })}
              >
                Move {count(shown.length)}
              </Button>
              <Button
                variant="primary"
                icon={<RotateCw aria-hidden />}
                blockedBecause={blocked}
                onClick={() => setAsking({ what: "group", jobs: shown.map((row) => row.id) })}
              >
                Retry {count(shown.length)}
              </Button>
            </>
          ) : queue && total > 0 ? (
            <Button
              variant="primary"
              icon={<RotateCw aria-hidden />}
              blockedBecause={blocked}
              onClick={() => setAsking({ what: "queue", queue, dead: total })}
            >
              Retry all {count(total)}
            </Button>
          ) : null}
        </>
      }
    >
      {dead.error && !rows ? (
        <Problem error={dead.error} onRetry={() => void dead.refetch()} />
      ) : empty ? (
        <EmptyState
          icon={<PartyPopper aria-hidden />}
          title={queue ? `No dead jobs in ${queue}` : "No dead jobs"}
          action={
            queue ? <Button onClick={() => void navigate({ search: {} })}>Show all queues</Button> : undefined
          }
          snippet={
            <CodeBlock language="shell" label="List dead jobs" code={deadEquivalents(queue).curl ?? ""} />
          }
        >
          Jobs that run out of attempts, expire or are rejected appear here with their error. You can retry
          them.
        </EmptyState>
      ) : (
        <div className="grid items-start gap-5 lg:grid-cols-[14rem_minmax(0,1fr)]">
          <Groups groups={groups} chosen={chosen} queue={queue} scope={scope} all={rows?.length} />
          <div ref={list} className="flex min-w-0 flex-col gap-2">
            <Card flush>
              <Table label="Dead jobs" columns={columns} rows={shown} rowKey={(row) => row.id} />
            </Card>
            <div className="flex flex-wrap items-center justify-between gap-3 px-1">
              <span className="flex flex-wrap gap-4 max-sm:hidden">
                <KeyboardHint keys="j">next</KeyboardHint>
                <KeyboardHint keys="r">retry</KeyboardHint>
                <KeyboardHint keys="d">delete</KeyboardHint>
              </span>
              {dead.hasNextPage ? (
                <Button size="sm" busy={dead.isFetchingNextPage} onClick={() => void dead.fetchNextPage()}>
                  Show more
                </Button>
              ) : null}
            </div>
          </div>
        </div>
      )}
      <Suspense>
        {asking?.what === "move" ? (
          <MoveDialog
            scope={scope}
            jobs={asking.jobs}
            onClose={() => setAsking(null)}
            onDone={() => void navigate({ search: {} })}
          />
        ) : asking ? (
          <Confirm
            open
            onOpenChange={() => setAsking(null)}
            title={question(asking)}
            variant={asking.what === "delete" ? "danger" : "primary"}
            confirmLabel={asking.what === "delete" ? "Delete job" : "Retry jobs"}
            cancelLabel="Cancel"
            describeError={describeError}
            onConfirm={() => confirmed(asking)}
          >
            {asking.what === "delete"
              ? "This deletes its payload and errors, and can't be undone."
              : "Each job starts over at its first attempt. Jobs that keep failing become dead again."}
          </Confirm>
        ) : null}
      </Suspense>
    </Page>
  );
}

function question(asking: Exclude<Asking, { what: "move" }>): string {
  if (asking.what === "delete") return "Delete this job?";
  if (asking.what === "queue") return `Retry ${plural(asking.dead, "dead job")} in ${asking.queue}?`;
  return `Retry ${plural(asking.jobs.length, "job")}?`;
}

const runAgain = (jobs: number) => `Retried ${plural(jobs, "job")}`;

interface GroupsProps {
  scope: { tenant: string; namespace: string };
  groups: readonly ErrorGroup<Dead>[];
  chosen: string | undefined;
  queue: string | undefined;
  all: number | undefined;
}

/** What the loaded jobs died of. */
function Groups({ scope, groups, chosen, queue, all }: GroupsProps) {
  const rest = queue ? { queue } : {};
  return (
    <nav aria-label="Errors" className="flex min-w-0 flex-col gap-px lg:sticky lg:top-16">
      <GroupLink scope={scope} search={rest} on={chosen === undefined} text="All errors" size={all} />
      {groups.map((group) => (
        <GroupLink
          key={group.pattern}
          scope={scope}
          search={{ ...rest, error: group.pattern }}
          on={group.pattern === chosen}
          text={group.sample.split("\n", 1)[0] || "No error message"}
          size={group.rows.length}
          mono
        />
      ))}
    </nav>
  );
}

interface GroupLinkProps {
  scope: { tenant: string; namespace: string };
  search: { queue?: string; error?: string };
  on: boolean;
  text: string;
  size: number | undefined;
  mono?: boolean;
}

function GroupLink({ scope, search, on, text, size, mono }: GroupLinkProps) {
  return (
    <Link
      to="/$tenant/$namespace/dead"
      params={scope}
      search={search}
      resetScroll={false}
      // Not the router's: two groups differ in their search only.
      aria-current={on ? "true" : undefined}
      className={clsx(
        "flex min-h-9 items-start justify-between gap-3 rounded-md px-2.5 py-1.5 text-12",
        on ? "bg-hover text-ink" : "text-ink-2 hover:bg-hover hover:text-ink",
      )}
    >
      <span
        className={clsx("line-clamp-2 min-w-0 leading-5 wrap-anywhere", mono ? "font-mono" : "font-medium")}
      >
        {text}
      </span>
      <span className="nums shrink-0 rounded-full bg-muted-soft px-1.5 text-11 leading-5 text-ink-2">
        {size === undefined ? "…" : count(size)}
      </span>
    </Link>
  );
}
