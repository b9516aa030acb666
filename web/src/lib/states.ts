// The states of a job, as the wire names them, in the order in which a job meets them.
export const jobStates = [
  "scheduled",
  "pending",
  "active",
  "cancelling",
  "retrying",
  "held",
  "completed",
  "dead",
  "cancelled",
] as const;

export type JobState = (typeof jobStates)[number];

// docs/words.md: the wire's own words.
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

export function stateWord(state: JobState): string {
  return words[state];
}

export function isJobState(text: string): text is JobState {
  return (jobStates as readonly string[]).includes(text);
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
