import type { Job, Queue } from "~/data/jobs-api";
import { plural } from "./numbers";
import { duration, relativeTime } from "./time";

/** What a job is doing and what comes next, in one or two sentences. */
export interface Sentence {
  what: string;
  next?: string;
}

/** What the server says stands in the way of a job. */
export type Reasons = readonly { code: string; message: string }[];

/** Needs the job's queue, and what stands in its way, for the reasons that are not the job's own. */
export function jobSentence(job: Job, queue: Queue | undefined, now: number, reasons?: Reasons): Sentence {
  const lastError = job.errors?.at(-1)?.error;
  switch (job.state) {
    case "scheduled":
      return {
        what: job.scheduled_at
          ? `Starts ${relativeTime(Date.parse(job.scheduled_at), now)}.`
          : "Starts at its scheduled time.",
        ...pausedNext(queue),
      };
    case "pending":
      return pending(job, queue, now, reasons);
    case "active":
      return {
        what: `${job.worker_id ?? "A worker"} is running attempt ${job.attempt} of ${job.max_retries}${since(job.started_at, now)}.`,
        ...(job.lease_expires_at ? { next: leaseSentence(job.lease_expires_at, now) } : {}),
      };
    case "cancelling":
      return {
        what: `Cancelled while active. ${job.worker_id ?? "The worker"} has been asked to stop.`,
        next: "It ends when the worker stops or its lease expires.",
      };
    case "retrying":
      return {
        what: `Attempt ${job.attempt} of ${job.max_retries} failed${lastError ? `: ${firstLine(lastError)}` : "."}`,
        next: job.scheduled_at
          ? `Next attempt ${relativeTime(Date.parse(job.scheduled_at), now)}.`
          : "The next attempt starts after a delay.",
      };
    case "held":
      return {
        what: job.hold_reason
          ? `Waiting for approval: ${firstLine(job.hold_reason)}`
          : "Waiting for approval.",
        ...(job.hold?.until
          ? {
              next: `Decided automatically ${relativeTime(Date.parse(job.hold.until), now)} if nobody responds.`,
            }
          : {}),
      };
    case "completed":
      return { what: `Completed${took(job)} on attempt ${job.attempt} of ${job.max_retries}.` };
    case "cancelled":
      return { what: "Cancelled before it completed.", next: "You can retry it." };
    case "dead":
      return dead(job, lastError);
  }
}

// Of these the queue's own numbers tell nothing.
const toldByTheServer = new Set(["budget_spent", "throttled"]);

function pending(job: Job, queue: Queue | undefined, now: number, reasons?: Reasons): Sentence {
  if (job.waiting_on)
    return {
      what: `Waiting for ${plural(job.waiting_on, "other job")} to complete.`,
    };
  if (queue?.paused)
    return { what: "Waiting because its queue is paused.", next: `Resume ${job.queue} to run it.` };
  if (queue?.max_concurrency && queue.active >= queue.max_concurrency) {
    return {
      what: `Waiting because ${job.queue} is at its limit of ${plural(queue.max_concurrency, "active job")}.`,
      next: "It starts when one of them finishes.",
    };
  }
  const told = reasons?.find((reason) => toldByTheServer.has(reason.code));
  if (told) return { what: told.message };
  const asked = reasons !== undefined && !reasons.some((reason) => reason.code === "no_worker");
  // A job that ran before waits since then.
  const waited = now - Math.max(Date.parse(job.created_at), Date.parse(job.failed_at ?? job.created_at));
  if (queue && queue.active === 0 && waited > 30_000 && !asked) {
    return {
      what: `Waiting for a worker for ${duration(waited, 1)}.`,
      next: `No worker is fetching from ${job.queue}. Start one.`,
    };
  }
  return {
    what: "Waiting for a worker.",
    ...(queue && queue.pending > 1
      ? { next: `${plural(queue.pending, "job is", "jobs are")} pending in ${job.queue}.` }
      : {}),
  };
}

function dead(job: Job, lastError: string | undefined): Sentence {
  const next = "Fix the cause, then retry it.";
  if (job.dead_reason === "crash_loop")
    return {
      what: `Its workers crashed${job.crashes ? ` ${plural(job.crashes, "time")}` : ""} while running it.`,
      next,
    };
  if (job.dead_reason === "expired") return { what: "Expired before it completed.", next };
  if (job.dead_reason === "rejected") return { what: `Rejected${rejection(job)}`, next };
  if (job.dead_reason === "dependency_failed")
    return { what: "A job it depends on failed.", next: "Retry it to run it anyway." };
  if (job.dead_reason === "budget_exceeded")
    return {
      what: "Over budget.",
      next: "Retry it when the budget allows.",
    };
  if (job.dead_reason === "terminal")
    return {
      what: `Its worker marked the error as permanent${lastError ? `: ${firstLine(lastError)}` : "."}`,
      next,
    };
  return {
    what: `${job.max_retries === 1 ? "The only attempt" : `All ${plural(job.max_retries, "attempt")}`} failed${lastError ? `: ${firstLine(lastError)}` : "."}`,
    next,
  };
}

function rejection(job: Job): string {
  const by = job.hold?.decided_by ? ` by ${job.hold.decided_by}` : "";
  return job.hold?.comment ? `${by}: ${firstLine(job.hold.comment)}` : `${by}.`;
}

function pausedNext(queue: Queue | undefined): { next?: string } {
  return queue?.paused ? { next: "Its queue is paused, so it will wait until you resume it." } : {};
}

function leaseSentence(at: string, now: number): string {
  const left = Date.parse(at) - now;
  return left > 0
    ? `Lease expires in ${duration(left, 1)} unless the worker renews it.`
    : "Its lease has expired. Another worker will pick it up.";
}

function since(at: string | undefined, now: number): string {
  return at ? `, started ${duration(Math.max(0, now - Date.parse(at)), 2)} ago` : "";
}

function took(job: Job): string {
  if (!job.completed_at || !job.started_at) return "";
  return ` in ${duration(Date.parse(job.completed_at) - Date.parse(job.started_at))}`;
}

function firstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  const short = line.length > 160 ? `${line.slice(0, 157)}…` : line;
  return /[.!?…]$/.test(short) ? short : `${short}.`;
}
