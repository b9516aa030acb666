import type { InfiniteData } from "@tanstack/react-query";
import type { Event } from "~/gen/openapi";
import { isJobState, type JobState } from "~/lib/states";
import type { JobRow, JobsPage, Queue } from "./jobs-api";

/** One event of a namespace's stream, its time as the other answers write theirs. */
export type LiveEvent = Omit<Event, "at_ns"> & { at: string };

/** Reads the data line of a frame; null for what is not an event. */
export function decodeEvent(text: string): LiveEvent | null {
  try {
    const { at_ns, ...event } = JSON.parse(text) as Event;
    if (typeof event.seq !== "number" || typeof event.type !== "string" || !event.type) return null;
    return { ...event, at: new Date(at_ns ? at_ns / 1e6 : Date.now()).toISOString() };
  } catch {
    return null;
  }
}

/** The state of a job after an event, where the event tells. */
export function stateAfter(event: LiveEvent): JobState | null {
  const state = event.data?.state;
  return state !== undefined && isJobState(state) ? state : null;
}

/** Whether the event is the creation of a job. */
export function isNew(event: LiveEvent): boolean {
  return (event.type === "enqueued" || event.type === "scheduled") && event.data?.from === undefined;
}

/**
 * Moves the counts of queues by events: each says from which state to which it moved
 * its job. An estimate that a refetch soon makes exact; it never goes below zero.
 * Queues without an event keep their identity, so that their rows do not render again.
 */
export function applyToQueues(queues: Queue[], events: readonly LiveEvent[]): Queue[] {
  const changed = new Map<string, Queue>();
  const byName = new Map(queues.map((queue) => [queue.name, queue]));
  for (const event of events) {
    if (!event.queue) continue;
    const queue = changed.get(event.queue) ?? byName.get(event.queue);
    if (!queue) continue;
    const next = moved(queue, event);
    if (next !== queue) changed.set(event.queue, next);
  }
  if (changed.size === 0) return queues;
  return queues.map((queue) => changed.get(queue.name) ?? queue);
}

function moved(queue: Queue, event: LiveEvent): Queue {
  if (event.type === "queue.paused") return { ...queue, paused: true };
  if (event.type === "queue.resumed") return { ...queue, paused: false };
  const from = event.data?.from;
  const to = stateAfter(event);
  const born = isNew(event);
  if (!born && from === undefined) return queue;
  const next = { ...queue };
  if (from !== undefined && isJobState(from)) next[from] = Math.max(0, (next[from] ?? 0) - 1);
  if (to) next[to] = (next[to] ?? 0) + 1;
  if (born) next.enqueued += 1;
  if (event.type === "failed") next.failed += 1;
  return next;
}

/** Applies an event to one row. */
export function applyToRow(row: JobRow, event: LiveEvent): JobRow {
  const next: JobRow = { ...row, state: stateAfter(event) ?? row.state };
  if (typeof event.data?.attempt === "number") next.attempt = event.data.attempt;
  if (event.type === "moved" && event.queue) next.queue = event.queue;
  if (event.type === "started") next.started_at = event.at;
  if (event.type === "completed") next.completed_at = event.at;
  if (event.type === "failed" || event.type === "dead" || event.type === "retrying")
    next.failed_at = event.at;
  return next;
}

/** Patches the rows of loaded pages in place; pages without a change keep their identity. */
export function applyToPages(
  data: InfiniteData<JobsPage>,
  events: readonly LiveEvent[],
): InfiniteData<JobsPage> {
  const byJob = new Map<string, LiveEvent[]>();
  for (const event of events) {
    if (!event.job_id) continue;
    const list = byJob.get(event.job_id);
    if (list) list.push(event);
    else byJob.set(event.job_id, [event]);
  }
  if (byJob.size === 0) return data;
  let touched = false;
  const pages = data.pages.map((page) => {
    if (!page.jobs.some((row) => byJob.has(row.id))) return page;
    touched = true;
    return { ...page, jobs: page.jobs.map((row) => (byJob.get(row.id) ?? []).reduce(applyToRow, row)) };
  });
  return touched ? { ...data, pages } : data;
}
