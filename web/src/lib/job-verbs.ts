import type { JobState } from "./states";

/** States from which a job can be held until somebody decides. */
export function canHold(state: JobState): boolean {
  return state === "pending" || state === "active" || state === "retrying" || state === "scheduled";
}

/** States in which no worker holds a job, so that it can be put into another queue. */
export function canMove(state: JobState): boolean {
  return state !== "active" && state !== "cancelling";
}

/** States in which a job waits for something. */
export function waits(state: JobState): boolean {
  return state === "pending" || state === "scheduled" || state === "retrying" || state === "held";
}
