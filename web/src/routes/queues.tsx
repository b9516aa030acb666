import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import {
  CircleArrowDown,
  CirclePause,
  CirclePlay,
  Layers,
  Pause,
  Play,
  RotateCw,
  Search,
  Settings2,
} from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { FirstJob } from "~/components/jobs/first-job";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { Input } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { Skeleton } from "~/components/ui/skeleton";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { useNow } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { jobsApi, type Queue } from "~/data/jobs-api";
import { pageApi } from "~/data/page-api";
import { reads } from "~/data/queries";
import { useRights } from "~/data/rights";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { queuesEquivalents } from "~/lib/equivalents";
import { compact, count, plural } from "~/lib/numbers";
import type { JobState } from "~/lib/states";
import { duration } from "~/lib/time";

const route = getRouteApi("/$tenant/$namespace/queues");
const QueueDialog = lazy(() => import("~/components/queues/queue-dialog"));
const Throughput = lazy(() => import("~/features/queues/throughput"));
const Confirm = lazy(() => import("~/components/confirm"));

/** All queues with exact counts. */
export function QueuesPage() {
  const scope = route.useParams();
  const rights = useRights(scope);
  const queues = useQuery(reads.queues(scope));
  const client = useQueryClient();
  const [filter, setFilter] = useState("");
  const [edited, setEdited] = useState<Queue | null>(null);
  const [revived, setRevived] = useState<Queue | null>(null);
  useCopyAs(queuesEquivalents(queues.data, scope.namespace));

  const setPaused = useMutation({
    mutationFn: ({ queue, paused }: { queue: Queue; paused: boolean }) =>
      paused ? jobsApi.pause(scope, queue.name) : jobsApi.resume(scope, queue.name),
    // Pausing is harmless to repeat and to undo, so the page does not wait for it.
    onMutate: ({ queue, paused }) => {
      client.setQueryData(reads.queues(scope).queryKey, (was) =>
        was?.map((entry) =>
          entry.name === queue.name
            ? { ...entry, paused, draining: paused && Boolean(entry.draining) }
            : entry,
        ),
      );
    },
    onSuccess: (_, { queue, paused }) =>
      toast({
        title: paused ? `Paused ${queue.name}` : `Resumed ${queue.name}`,
        description: paused ? "New jobs are accepted but don't run." : "Workers can fetch its jobs again.",
        action: { label: "Undo", onClick: () => setPaused.mutate({ queue, paused: !paused }) },
      }),
    onError: (error, { queue }) =>
      toast({ kind: "error", title: `Couldn't update ${queue.name}`, description: describeError(error) }),
    onSettled: () => client.invalidateQueries({ queryKey: reads.queues(scope).queryKey }),
  });

  async function requeue({ name }: Queue) {
    const { requeued } = await pageApi.requeue(scope, name);
    toast({
      title: `Retried ${plural(requeued, "job")}`,
      description: `All dead jobs in ${name}.`,
    });
    await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
  }

  const shown = queues.data?.filter((queue) =>
    queue.name.toLowerCase().includes(filter.trim().toLowerCase()),
  );

  const columns: Column<Queue>[] = [
    {
      id: "name",
      header: "Queue",
      sort: (queue) => queue.name,
      phone: "title",
      cell: (queue) => (
        <Link
          to="/$tenant/$namespace/jobs"
          params={scope}
          search={{ queue: queue.name }}
          title={queue.name}
          className="inline-flex min-h-6 items-center font-medium underline-offset-2 hover:underline sm:min-w-36"
        >
          <span className="line-clamp-2 wrap-anywhere">{queue.name}</span>
        </Link>
      ),
    },
    {
      id: "state",
      header: "State",
      sort: (queue) => (queue.paused ? 2 : queue.draining ? 1 : 0),
      phone: "corner",
      cell: (queue) =>
        queue.draining && !queue.paused ? (
          <Badge tone="violet" icon={<CircleArrowDown aria-hidden />}>
            Draining
          </Badge>
        ) : queue.paused ? (
          <Badge tone="warn" icon={<CirclePause aria-hidden />}>
            {queue.draining ? "Paused, draining" : "Paused"}
          </Badge>
        ) : (
          <Badge tone="ok" icon={<CirclePlay aria-hidden />}>
            Open
          </Badge>
        ),
    },
    ...(
      [
        ["pending", "Pending", "pending"],
        ["active", "Active", "active"],
        ["scheduled", "Scheduled", "scheduled"],
        ["retrying", "Retrying", "retrying"],
        ["dead", "Dead", "dead"],
        ["completed", "Completed", "completed"],
      ] as const
    ).map(
      ([field, header, state]): Column<Queue> => ({
        id: field,
        header,
        align: "right",
        sort: (queue) => queue[field],
        phoneSkip: (queue) => queue[field] === 0,
        cell: (queue) => (
          <Count
            scope={scope}
            queue={queue.name}
            state={state}
            value={queue[field]}
            limit={field === "active" ? queue.max_concurrency : undefined}
          />
        ),
      }),
    ),
    {
      id: "oldest",
      header: "Oldest pending",
      phoneSkip: (queue) => !queue.oldest_pending_at,
      align: "right",
      sort: (queue) =>
        queue.oldest_pending_at ? -Date.parse(queue.oldest_pending_at) : -Number.MAX_SAFE_INTEGER,
      cell: (queue) => <Age at={queue.oldest_pending_at} />,
    },
    actionsColumn({}, (queue) => [
      ...(queue.dead > 0
        ? [
            {
              label: `Retry dead jobs in ${queue.name}`,
              icon: <RotateCw aria-hidden />,
              blockedBecause: rights.blocked(Permission.JOB_RETRY, queue.name),
              onClick: () => setRevived(queue),
            },
          ]
        : []),
      {
        label: stopped(queue) ? `Resume ${queue.name}` : `Pause ${queue.name}`,
        blockedBecause: rights.blocked(Permission.QUEUE_PAUSE, queue.name),
        icon: stopped(queue) ? <Play aria-hidden /> : <Pause aria-hidden />,
        onClick: () => setPaused.mutate({ queue, paused: !stopped(queue) }),
      },
      {
        label: `Edit ${queue.name}`,
        icon: <Settings2 aria-hidden />,
        blockedBecause: rights.blocked(Permission.QUEUE_UPDATE, queue.name),
        onClick: () => setEdited(queue),
      },
    ]),
  ];

  if (queues.error && !queues.data) {
    return (
      <Page>
        <Problem error={queues.error} onRetry={() => void queues.refetch()} />
      </Page>
    );
  }

  return (
    <Page
      description={queues.data ? `${plural(queues.data.length, "queue")}` : "Loading"}
      actions={
        queues.data && queues.data.length > 5 ? (
          <Input
            data-filter
            aria-label="Find a queue"
            placeholder="Find a queue"
            icon={<Search aria-hidden />}
            className="w-56"
            value={filter}
            onChange={setFilter}
          />
        ) : null
      }
    >
      {queues.data?.length === 0 ? (
        <FirstJob scope={scope} icon={<Layers aria-hidden />} title="No queues yet">
          A queue is created when you enqueue its first job. You don't need to set it up.
        </FirstJob>
      ) : (
        <>
          <Suspense fallback={<Skeleton className="h-50 rounded-xl!" />}>
            <Throughput scope={scope} />
          </Suspense>
          <Card flush>
            {/* A tablet is too narrow for all counts, and too wide for cards. */}
            <div className="relative overflow-x-auto">
              <Table
                label="Queues"
                columns={columns}
                rows={shown}
                rowKey={(queue) => queue.name}
                initialSort={{ column: "name", descending: false }}
                empty={
                  <EmptyState
                    icon={<Search aria-hidden />}
                    title="No queues found"
                    action={<Button onClick={() => setFilter("")}>Clear filter</Button>}
                  >
                    No queue name contains “{filter}”.
                  </EmptyState>
                }
              />
            </div>
          </Card>
        </>
      )}
      <Suspense>
        {edited ? (
          <QueueDialog scope={scope} queue={edited} rights={rights} onClose={() => setEdited(null)} />
        ) : null}
        {revived ? (
          <Confirm
            onClose={() => setRevived(null)}
            title={`Retry ${plural(revived.dead, "dead job")} in ${revived.name}?`}
            variant="primary"
            confirmLabel="Retry jobs"
            onConfirm={() => requeue(revived)}
          >
            Each job starts over at its first attempt. Jobs that keep failing become dead again.
          </Confirm>
        ) : null}
      </Suspense>
    </Page>
  );
}

/** Resuming ends both. */
const stopped = (queue: Queue) => queue.paused || Boolean(queue.draining);

interface CountProps {
  scope: { tenant: string; namespace: string };
  queue: string;
  state: JobState;
  value: number;
  limit: number | undefined;
}

function Count({ scope, queue, state, value, limit }: CountProps) {
  const text = limit ? `${compact(value)} / ${compact(limit)}` : compact(value);
  if (value === 0) return <span className="nums text-ink-3">{text}</span>;
  return (
    <Link
      to="/$tenant/$namespace/jobs"
      params={scope}
      search={{ queue, state: [state] }}
      title={count(value)}
      className={`nums inline-flex min-h-6 items-center underline-offset-2 hover:underline ${state === "dead" ? "font-medium text-danger-text" : ""}`}
    >
      {text}
    </Link>
  );
}

function Age({ at }: { at: string | undefined }) {
  const now = useNow();
  if (!at) return <span className="text-ink-3">–</span>;
  const age = now - Date.parse(at);
  return (
    <span className={`nums ${age > 15 * 60_000 ? "font-medium text-warn-text" : ""}`}>
      {duration(age, 1)}
    </span>
  );
}
