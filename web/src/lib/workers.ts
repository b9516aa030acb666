import type { JobRow } from "~/data/jobs-api";
import type { Worker } from "~/data/page-api";

/** A worker with the jobs it holds. */
export interface AtWork {
  /** Empty for those that fetch without a name. */
  id: string;
  hostname: string;
  queues: readonly string[];
  /** Unset for one that holds jobs and was not heard of since another node leads. */
  lastSeen?: string;
  since?: string;
  jobs: readonly JobRow[];
  state: "working" | "waiting" | "quiet";
}

// A fetch waits a minute at most, and then comes again: more than this without a word
// and nothing in hand, and the worker has probably gone.
const QUIET_MS = 75_000;

/** Connected workers and the jobs they hold; busy ones first. */
export function atWork(workers: readonly Worker[], leased: readonly JobRow[], now: number): AtWork[] {
  const held = new Map<string, JobRow[]>();
  for (const job of leased) {
    const holder = job.worker_id ?? "";
    held.set(holder, [...(held.get(holder) ?? []), job]);
  }
  const listed = workers.map((worker): AtWork => {
    const jobs = held.get(worker.id) ?? [];
    held.delete(worker.id);
    const silent = now - Date.parse(worker.last_heartbeat) > QUIET_MS;
    return {
      id: worker.id,
      hostname: worker.hostname,
      queues: worker.queues,
      lastSeen: worker.last_heartbeat,
      since: worker.started_at,
      jobs,
      state: jobs.length > 0 ? "working" : silent ? "quiet" : "waiting",
    };
  });
  const unlisted = [...held].map(
    ([id, jobs]): AtWork => ({
      id,
      hostname: "",
      queues: [...new Set(jobs.map((job) => job.queue))],
      jobs,
      state: "working",
    }),
  );
  const order = { working: 0, waiting: 1, quiet: 2 };
  return [...listed, ...unlisted].sort(
    (a, b) => order[a.state] - order[b.state] || a.id.localeCompare(b.id, undefined, { numeric: true }),
  );
}

/** How many hosts are known by name. */
export function hosts(workers: readonly AtWork[]): number {
  return new Set(workers.map((worker) => worker.hostname).filter((name) => name !== "")).size;
}
