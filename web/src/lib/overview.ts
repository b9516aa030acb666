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

export interface Attention {
  kind: "dead" | "paused" | "stuck";
  queue: string;
  title: string;
  detail: string;
}

// Long enough that a deploy of the workers is over.
const STUCK_MS = 2 * 60_000;

/** What somebody should look at, worst first. */
export function attention(queues: readonly Queue[], now: number): Attention[] {
  const found: Attention[] = [];
  for (const queue of queues) {
    const age = queue.oldest_pending_at ? now - Date.parse(queue.oldest_pending_at) : 0;
    if (queue.pending > 0 && queue.active === 0 && !queue.paused && age > STUCK_MS) {
      found.push({
        kind: "stuck",
        queue: queue.name,
        title: `${queue.name} stands still`,
        detail: `${plural(queue.pending, "job waits", "jobs wait")}, the oldest for ${duration(age, 1)}, and no worker takes ${queue.pending === 1 ? "it" : "them"}.`,
      });
    }
    if (queue.dead > 0) {
      found.push({
        kind: "dead",
        queue: queue.name,
        title: `${plural(queue.dead, "dead job")} in ${queue.name}`,
        detail: `${queue.dead === 1 ? "It is" : "They are"} not tried any more. Look at the errors, then run ${queue.dead === 1 ? "it" : "them"} again.`,
      });
    }
    if (queue.paused) {
      found.push({
        kind: "paused",
        queue: queue.name,
        title: `${queue.name} is paused`,
        detail:
          queue.pending > 0
            ? `${plural(queue.pending, "job waits", "jobs wait")} until it is resumed.`
            : "No job is handed out until it is resumed.",
      });
    }
  }
  const order = { stuck: 0, dead: 1, paused: 2 };
  return found.sort((a, b) => order[a.kind] - order[b.kind]).slice(0, 8);
}
