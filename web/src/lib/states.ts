import type { State } from "~/gen/openapi";

/** The states of a job, as the wire names them. */
export type JobState = State;

// docs/words.md: the wire's own words, in the order in which a job meets them.
const words: Record<JobState, string> = {
  scheduled: "Scheduled",
  pending: "Pending",
  active: "Active",
  cancelling: "Cancelling",
  retrying: "Retrying",
  held: "Held",
  completed: "Completed",
  dead: "Dead",
  cancelled: "Cancelled",
};

export const jobStates = Object.keys(words) as JobState[];

export function stateWord(state: JobState): string {
  return words[state];
}

export function isJobState(text: string): text is JobState {
  return Object.hasOwn(words, text);
}

/** States from which POST …/retry runs a job again. */
export function canRetry(state: JobState): boolean {
  return startsEarly(state) || state === "dead" || state === "cancelled" || state === "completed";
}

/** States in which the same call means: do not wait for the time. */
export function startsEarly(state: JobState): boolean {
  return state === "scheduled" || state === "retrying";
}

/** States in which a job can still be stopped. */
export function canCancel(state: JobState): boolean {
  return (
    state === "pending" ||
    state === "active" ||
    state === "retrying" ||
    state === "scheduled" ||
    state === "held"
  );
}
