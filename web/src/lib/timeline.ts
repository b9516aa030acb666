import type { TimelineEvent } from "~/data/jobs-api";
import { duration } from "./time";

export type TimelineTone = "neutral" | "info" | "ok" | "warn" | "danger" | "violet" | "pink";

export interface TimelineEntry {
  key: string;
  title: string;
  detail?: string;
  tone: TimelineTone;
  at: string;
  /** Time since the event before: "after 4.2 s". */
  gap?: string;
}

/** One attempt as a length of time. */
export interface Attempt {
  /** Of the attempt; of the iteration if it is one of an agent job that went on. */
  number: number;
  worker?: string;
  from: string;
  /** Unset while it runs. */
  to?: string;
  outcome: "running" | "completed" | "failed" | "ended";
}

/** The events that have words of their own; others show the name of their type in gray. */
const titles: Record<string, [string, TimelineTone]> = {
  scheduled: ["Scheduled", "violet"],
  promoted: ["Pending", "neutral"],
  started: ["Started", "info"],
  progress: ["Progress", "info"],
  continued: ["Continued", "info"],
  completed: ["Completed", "ok"],
  failed: ["Attempt failed", "danger"],
  retrying: ["Retry scheduled", "warn"],
  dead: ["Dead", "danger"],
  cancelling: ["Asked to stop", "warn"],
  cancel_requested: ["Asked to stop", "warn"],
  released: ["Released by worker", "neutral"],
  reclaimed: ["Lease expired", "warn"],
  lease_expired: ["Lease expired", "warn"],
  expired: ["Expired", "danger"],
  held: ["Held", "pink"],
  approved: ["Approved", "ok"],
  rejected: ["Rejected", "danger"],
  unblocked: ["Dependencies completed", "neutral"],
  budget_exceeded: ["Over budget", "warn"],
};

// Titles that read better with the number of the attempt.
const inAttempt: Record<string, string> = {
  started: "started",
  failed: "failed",
  completed: "completed",
  reclaimed: "lost its lease",
  lease_expired: "lost its lease",
};

/** Whether a job went on after an iteration: its attempts are counted within each. */
export function iterates(events: readonly TimelineEvent[]): boolean {
  return events.some((event) => event.type === "continued");
}

/**
 * The iteration of each event. A long timeline lacks what is between its first event and the
 * latest ones: `latest`, the one that the job is in, says how many iterations are not in it.
 */
function iterationsOf(events: readonly TimelineEvent[], latest?: number): number[] {
  let iteration = 1;
  let running = false;
  // A worker that asks for a person ends its iteration; the next one begins once it runs again.
  let over = false;
  const found = events.map(({ type }) => {
    if (type === "started" && over) {
      iteration += 1;
      over = false;
    }
    const number = iteration;
    if (type === "continued") iteration += 1;
    else if (type === "held" && running) over = true;
    if (type === "started") running = true;
    else if (ends[type]) running = false;
    return number;
  });
  const missing = Math.max(0, (latest ?? iteration) - iteration);
  return found.map((number) => number + missing);
}

function titleOf({ type, attempt }: TimelineEvent, otherwise: string, iteration?: number): string {
  if (iteration && type === "continued") return `Iteration ${iteration} completed`;
  const what = inAttempt[type];
  if (!what || !attempt) return otherwise;
  if (!iteration) return `Attempt ${attempt} ${what}`;
  return `Iteration ${iteration} ${what}${attempt > 1 ? `, attempt ${attempt}` : ""}`;
}

/** The events of a job in words, oldest first; `latest` is the iteration that an agent job is in. */
export function timelineEntries(events: readonly TimelineEvent[], latest?: number): TimelineEntry[] {
  const iterations = iterates(events) ? iterationsOf(events, latest) : [];
  return events.map((event, index) => {
    const { type } = event;
    const [title, tone] = titles[type] ?? [nameOf(type), "neutral" as const];
    const before = events[index - 1];
    const gap = before ? Date.parse(event.at) - Date.parse(before.at) : 0;
    const detail = event.error ?? (type === "started" ? workerOf(event) : undefined);
    return {
      key: `${event.seq}-${index}`,
      title: titleOf(event, title, iterations[index]),
      tone,
      at: event.at,
      ...(detail ? { detail } : {}),
      ...(gap >= 1 ? { gap: `after ${duration(gap)}` } : {}),
    };
  });
}

/** "priority_changed" → "Priority changed" */
function nameOf(type: string): string {
  return type.charAt(0).toUpperCase() + type.slice(1).replaceAll("_", " ");
}

function workerOf(event: TimelineEvent): string | undefined {
  return event.worker_id ? `by ${event.worker_id}` : undefined;
}

const ends: Record<string, Attempt["outcome"]> = {
  completed: "completed",
  // An iteration of an agent job: the next one is another attempt.
  continued: "completed",
  failed: "failed",
  retrying: "failed",
  dead: "failed",
  cancelled: "ended",
  released: "ended",
  reclaimed: "failed",
  lease_expired: "failed",
  held: "ended",
};

/** The attempts of a job, made of its events; `latest` is the iteration that an agent job is in. */
export function attempts(events: readonly TimelineEvent[], latest?: number): Attempt[] {
  const iterations = iterates(events) ? iterationsOf(events, latest) : [];
  const found: Attempt[] = [];
  for (const [index, event] of events.entries()) {
    const { type } = event;
    if (type === "started") {
      found.push({
        number: iterations[index] ?? event.attempt ?? found.length + 1,
        from: event.at,
        outcome: "running",
        ...(event.worker_id ? { worker: event.worker_id } : {}),
      });
      continue;
    }
    const outcome = ends[type];
    const open = found.at(-1);
    if (outcome && open && open.to === undefined) {
      open.to = event.at;
      open.outcome = outcome;
    }
  }
  return found;
}
