import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { CircleDashed, CirclePlay, Clock, Cpu, Search } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge, type Tone } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Input } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time, useNow } from "~/components/ui/time";
import { JobLink } from "~/components/work/parts";
import type { LiveEvent } from "~/data/events";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";
import { count, plural } from "~/lib/numbers";
import { firstWorker, workersEquivalents } from "~/lib/page-equivalents";
import { type AtWork, atWork, hosts } from "~/lib/workers";

const route = getRouteApi("/$tenant/$namespace/workers");

// Under load jobs come and go all the time.
const REFRESH_MS = 2_000;

/** A worker started or finished a job. */
function concerns({ data }: LiveEvent): boolean {
  return [data?.from, data?.state].some((state) => state === "active" || state === "cancelling");
}

/** Workers, and the jobs they hold. */
export function WorkersPage() {
  const scope = route.useParams();
  const now = useNow();
  const query = useQuery(pageReads.workers(scope));
  const [filter, setFilter] = useState("");
  useCopyAs(workersEquivalents());
  useRefresh(pageReads.workers(scope).queryKey, concerns, REFRESH_MS);

  const { data } = query;
  const all = data && atWork(data.workers, data.jobs, now);
  const wanted = filter.trim().toLowerCase();
  const shown = all?.filter((worker) =>
    [worker.id, worker.hostname, ...worker.queues].some((text) => text.toLowerCase().includes(wanted)),
  );

  if (query.error && !data) {
    return (
      <Page>
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  }
  return (
    <Page
      description={all ? describe(all, data.jobs.length, data.more) : "Loading"}
      actions={
        all && all.length > 5 ? (
          <Input
            data-filter
            aria-label="Find a worker, host or queue"
            placeholder="Worker, host or queue"
            icon={<Search aria-hidden />}
            className="w-56"
            value={filter}
            onChange={setFilter}
          />
        ) : null
      }
    >
      {all?.length === 0 ? (
        <EmptyState
          icon={<Cpu aria-hidden />}
          title="No workers connected"
          snippet={<CodeBlock language="shell" label="Start a worker" code={firstWorker} />}
        >
          A worker appears here when it first fetches, and disappears 2 minutes after its last request.
        </EmptyState>
      ) : (
        <Card
          flush
          footer={data?.more ? `Shows the newest ${count(data.jobs.length)} active jobs.` : undefined}
        >
          <Table
            label="Workers"
            columns={columns(scope)}
            rows={shown}
            rowKey={(worker) => worker.id}
            empty={
              <EmptyState
                icon={<Search aria-hidden />}
                title="No workers found"
                action={<Button onClick={() => setFilter("")}>Clear filter</Button>}
              >
                No worker, host or queue matches “{filter}”.
              </EmptyState>
            }
          />
        </Card>
      )}
    </Page>
  );
}

function describe(all: readonly AtWork[], jobs: number, more: boolean): string {
  if (all.length === 0) return "No worker has fetched jobs in the last 2 minutes.";
  const on = hosts(all);
  return `${plural(all.length, "worker")}${on > 0 ? ` on ${plural(on, "host")}` : ""} with ${more ? "more than " : ""}${plural(jobs, "active job")}.`;
}

const states: Record<AtWork["state"], { word: string; tone: Tone; icon: ReactNode; order: number }> = {
  working: { word: "Working", tone: "info", icon: <CirclePlay aria-hidden />, order: 0 },
  waiting: { word: "Waiting", tone: "ok", icon: <CircleDashed aria-hidden />, order: 1 },
  quiet: { word: "Quiet", tone: "warn", icon: <Clock aria-hidden />, order: 2 },
};

function columns(scope: Scope): Column<AtWork>[] {
  return [
    {
      id: "worker",
      header: "Worker",
      phone: "title",
      sort: (worker) => worker.id,
      cell: (worker) => (
        <span className="flex min-w-0 flex-col py-0.5">
          <span className="font-medium wrap-anywhere">{worker.id || "Without a name"}</span>
          {worker.hostname ? (
            <span className="text-12 wrap-anywhere text-ink-3">{worker.hostname}</span>
          ) : null}
        </span>
      ),
    },
    {
      id: "state",
      header: "State",
      phone: "corner",
      width: "w-28",
      sort: (worker) => states[worker.state].order,
      cell: ({ state }) => (
        <Badge tone={states[state].tone} icon={states[state].icon}>
          {states[state].word}
        </Badge>
      ),
    },
    {
      id: "queues",
      header: "Queues",
      phoneSkip: (worker) => worker.queues.length === 0,
      cell: (worker) => <Queues scope={scope} names={worker.queues} />,
    },
    {
      id: "jobs",
      header: "Active jobs",
      sort: (worker) => worker.jobs.length,
      phoneSkip: (worker) => worker.jobs.length === 0,
      cell: (worker) => <Jobs scope={scope} worker={worker} />,
    },
    {
      id: "since",
      header: "First seen",
      align: "right",
      width: "w-28",
      phoneSkip: (worker) => !worker.since,
      sort: (worker) => (worker.since ? -Date.parse(worker.since) : 0),
      cell: (worker) => <Time at={worker.since} none="–" className="text-ink-2" />,
    },
    {
      id: "seen",
      header: "Last seen",
      align: "right",
      width: "w-28",
      phoneSkip: (worker) => !worker.lastSeen,
      sort: (worker) => (worker.lastSeen ? -Date.parse(worker.lastSeen) : Number.MAX_SAFE_INTEGER),
      cell: (worker) => (
        <Time
          at={worker.lastSeen}
          none="–"
          className={worker.state === "quiet" ? "text-warn-text" : "text-ink-2"}
        />
      ),
    },
  ];
}

// More than this in one row and the rows are hard to read.
const SHOWN = 3;

function Queues({ scope, names }: { scope: Scope; names: readonly string[] }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2 max-sm:justify-end">
      {names.slice(0, SHOWN).map((name) => (
        <Link
          key={name}
          to="/$tenant/$namespace/jobs"
          params={scope}
          search={{ queue: name }}
          className="inline-flex min-h-6 items-center wrap-anywhere text-ink-2 underline-offset-2 hover:text-ink hover:underline"
        >
          {name}
        </Link>
      ))}
      <Rest names={names.slice(SHOWN)} />
    </span>
  );
}

function Jobs({ scope, worker }: { scope: Scope; worker: AtWork }) {
  if (worker.jobs.length === 0) return <span className="nums text-ink-3">0</span>;
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2 max-sm:justify-end">
      <span className="nums min-w-5 font-medium">{count(worker.jobs.length)}</span>
      {worker.jobs.slice(0, SHOWN).map((job) => (
        <JobLink key={job.id} scope={scope} id={job.id}>
          <span className="sr-only">{job.id.slice(0, -6)}</span>
          <span aria-hidden>…</span>
          {job.id.slice(-6)}
        </JobLink>
      ))}
      <Rest names={worker.jobs.slice(SHOWN).map((job) => job.id)} />
    </span>
  );
}

function Rest({ names }: { names: readonly string[] }) {
  return names.length === 0 ? null : (
    <span className="text-12 text-ink-3" title={names.slice(0, 50).join("\n")}>
      and {count(names.length)} more
    </span>
  );
}
