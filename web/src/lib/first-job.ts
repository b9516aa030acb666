import type { LiveEvent } from "~/data/events";

/** The progress of the first job, from real events only. */
export interface FirstJob {
  job?: string;
  queue?: string;
  enqueuedAt?: string;
  startedAt?: string;
  doneAt?: string;
  failedAt?: string;
}

/** The first job after an event. It follows the job that got furthest, and stays with one that is done. */
export function advance(state: FirstJob, event: LiveEvent): FirstJob {
  if (state.doneAt || !event.job_id) return state;
  if (event.type === "enqueued" || event.type === "scheduled") {
    if (state.job) return state;
    return { job: event.job_id, ...(event.queue ? { queue: event.queue } : {}), enqueuedAt: event.at };
  }
  if (
    event.type !== "started" &&
    event.type !== "completed" &&
    event.type !== "failed" &&
    event.type !== "retrying" &&
    event.type !== "dead"
  )
    return state;
  if (state.job !== event.job_id && state.startedAt) return state;
  const base: FirstJob =
    state.job === event.job_id
      ? state
      : { job: event.job_id, ...(event.queue ? { queue: event.queue } : {}), enqueuedAt: event.at };
  if (event.type === "started") return { ...base, startedAt: event.at, failedAt: undefined };
  if (event.type === "completed")
    return { ...base, startedAt: base.startedAt ?? event.at, doneAt: event.at, failedAt: undefined };
  return { ...base, failedAt: event.at };
}
