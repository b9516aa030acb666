import type { Queue } from "~/data/jobs-api";
import { plural } from "./numbers";
import { duration } from "./time";

export interface Totals {
  waiting: number;
  active: number;
  completed: number;
  dead: number;
  /** Queues with a job that runs. */
  busy: number;
  oldest?: string;
}

export function totals(queues: readonly Queue[]): Totals {
  const sum: Totals = { waiting: 0, active: 0, completed: 0, dead: 0, busy: 0 };
  for (const queue of queues) {
    sum.waiting += queue.pending + queue.scheduled + queue.retrying;
    sum.active += queue.active + (queue.cancelling ?? 0);
    sum.completed += queue.completed;
    sum.dead += queue.dead;
    if (queue.active > 0) sum.busy += 1;
    if (queue.oldest_pending_at && (!sum.oldest || queue.oldest_pending_at < sum.oldest))
      sum.oldest = queue.oldest_pending_at;
  }
  return sum;
}

/** One cause, and the queues that have it, the worst first. */
export interface Attention {
  kind: "stuck" | "dead" | "waiting" | "paused";
  title: string;
  detail: string;
  queues: string[];
}

// Long enough that a deploy of the workers is over.
const STUCK_MS = 2 * 60_000;
const WAITING_MS = 15 * 60_000;

/** What somebody should look at, by its cause, most severe first. */
export function attention(queues: readonly Queue[], now: number): Attention[] {
  const age = (queue: Queue) => (queue.oldest_pending_at ? now - Date.parse(queue.oldest_pending_at) : 0);
  const open = queues.filter((queue) => queue.pending > 0 && !queue.paused);
  const stuck = worst(
    open.filter((queue) => queue.active === 0 && age(queue) > STUCK_MS),
    age,
  );
  const waiting = worst(
    open.filter((queue) => queue.active > 0 && age(queue) > WAITING_MS),
    age,
  );
  const dead = worst(
    queues.filter((queue) => queue.dead > 0),
    (queue) => queue.dead,
  );
  const paused = worst(
    queues.filter((queue) => queue.paused),
    (queue) => queue.pending,
  );
  const found: Attention[] = [
    {
      kind: "stuck",
      title: `No workers on ${named(stuck)}`,
      detail: `${waitingJobs(stuck)}, the oldest for ${duration(Math.max(0, ...stuck.map(age)), 1)}. Start a worker.`,
      queues: stuck.map((queue) => queue.name),
    },
    {
      kind: "dead",
      title: `${plural(sum(dead, "dead"), "dead job")} in ${named(dead)}`,
      detail: "Failed for good. Review the errors, then retry or delete.",
      queues: dead.map((queue) => queue.name),
    },
    {
      kind: "waiting",
      title: `Long waits in ${named(waiting)}`,
      detail: `${waitingJobs(waiting)}, the oldest for ${duration(Math.max(0, ...waiting.map(age)), 1)}. Add workers or raise the limit.`,
      queues: waiting.map((queue) => queue.name),
    },
    {
      kind: "paused",
      title: `${named(paused)} ${paused.length === 1 ? "is" : "are"} paused`,
      detail: sum(paused, "pending") > 0 ? `${waitingJobs(paused)}.` : "No jobs waiting.",
      queues: paused.map((queue) => queue.name),
    },
  ];
  return found.filter((entry) => entry.queues.length > 0);
}

function worst(queues: readonly Queue[], by: (queue: Queue) => number): Queue[] {
  return [...queues].sort((a, b) => by(b) - by(a));
}

function sum(queues: readonly Queue[], field: "dead" | "pending"): number {
  return queues.reduce((total, queue) => total + queue[field], 0);
}

function named(queues: readonly Queue[]): string {
  return queues.length === 1 ? (queues[0]?.name ?? "") : plural(queues.length, "queue");
}

function waitingJobs(queues: readonly Queue[]): string {
  return plural(sum(queues, "pending"), "job waiting", "jobs waiting");
}
