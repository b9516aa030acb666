import type { JobEvent } from "~/gen/openapi";
import { type Json, member, parseLossless, printLossless, toPlain } from "~/lib/json";
import { isJobState } from "~/lib/states";
import type { Job, TimelineEvent } from "./jobs-api";

/** Reads a job and keeps the values of users as exact text. */
export function decodeJob(text: string): Job {
  const raw = parseLossless(text);
  const job = toPlain(raw) as Job;
  const exact = (name: string) => {
    const value: Json | undefined = member(raw, name);
    return value === undefined || value === null ? undefined : printLossless(value);
  };
  return {
    ...job,
    state: isJobState(job.state) ? job.state : "active",
    ...(job.timeline ? { timeline: (job.timeline as unknown as JobEvent[]).map(remembered) } : {}),
    payload: exact("payload") ?? "null",
    result: exact("result"),
    progress: exact("progress"),
    checkpoint: exact("checkpoint"),
  };
}

function remembered(entry: JobEvent, index: number): TimelineEvent {
  return { seq: index, type: entry.event, at: entry.at, attempt: entry.attempt };
}
