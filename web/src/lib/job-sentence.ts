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
          ? `It starts ${relativeTime(Date.parse(job.scheduled_at), now)}.`
          : "It waits for its time.",
        ...pausedNext(queue),
      };
    case "pending":
      return pending(job, queue, now, reasons);
    case "active":
      return {
        what: `${job.worker_id ?? "A worker"} runs attempt ${job.attempt} of ${job.max_retries}${since(job.started_at, now)}.`,
        ...(job.lease_expires_at ? { next: leaseSentence(job.lease_expires_at, now) } : {}),
      };
    case "cancelling":
      return {
        what: `It was cancelled while it ran; ${job.worker_id ?? "its worker"} was asked to stop.`,
        next: "It ends when the worker lets go, or when the lease runs out.",
      };
    case "retrying":
      return {
        what: `Attempt ${job.attempt} of ${job.max_retries} failed${lastError ? `: ${firstLine(lastError)}` : "."}`,
        next: job.scheduled_at
          ? `It is tried again ${relativeTime(Date.parse(job.scheduled_at), now)}.`
          : "It is tried again after a pause.",
      };
    case "held":
      return {
        what: job.hold_reason
          ? `It is held: ${firstLine(job.hold_reason)}`
          : "It is held and waits for approval.",
        next: job.hold?.until
          ? `It goes on when somebody approves it; ${relativeTime(Date.parse(job.hold.until), now)} it is decided by itself.`
          : "It goes on when somebody approves it.",
      };
    case "completed":
      return { what: `Done${took(job)} on attempt ${job.attempt} of ${job.max_retries}.` };
    case "cancelled":
      return { what: "It was cancelled and does not run.", next: "You can run it again." };
    case "dead":
      return dead(job, lastError);
  }
}

// Of these the queue's own numbers tell nothing.
const toldByTheServer = new Set(["budget_spent", "throttled"]);

function pending(job: Job, queue: Queue | undefined, now: number, reasons?: Reasons): Sentence {
  if (job.waiting_on)
    return {
      what: `It waits for ${plural(job.waiting_on, "job")} to be done.`,
      next: "It is handed out after the last of them.",
    };
  if (queue?.paused)
    return { what: "It waits because its queue is paused.", next: `Resume ${job.queue} to go on.` };
  if (queue?.max_concurrency && queue.active >= queue.max_concurrency) {
    return {
      what: `It waits because ${job.queue} may run ${plural(queue.max_concurrency, "job")} at once, and does.`,
      next: "It starts when one of them ends.",
    };
  }
  const told = reasons?.find((reason) => toldByTheServer.has(reason.code));
  if (told) return { what: told.message };
  const asked = reasons !== undefined && !reasons.some((reason) => reason.code === "no_worker");
  // A job that ran before waits since then.
  const waited = now - Math.max(Date.parse(job.created_at), Date.parse(job.failed_at ?? job.created_at));
  if (queue && queue.active === 0 && waited > 30_000 && !asked) {
    return {
      what: `It waits for a worker, for ${duration(waited, 1)} so far.`,
      next: `None seems to ask ${job.queue} for jobs. Start one.`,
    };
  }
  return {
    what: "It waits for a worker.",
    next:
      queue && queue.pending > 1
        ? `${plural(queue.pending, "job")} wait in ${job.queue}.`
        : "It is handed out as soon as one asks.",
  };
}

function dead(job: Job, lastError: string | undefined): Sentence {
  const next = "Run it again once the cause is gone.";
  if (job.dead_reason === "crash_loop")
    return {
      what: `Its workers died ${job.crashes ? `${job.crashes} times ` : ""}while they ran it, so it is not handed out any more.`,
      next,
    };
  if (job.dead_reason === "expired") return { what: "It expired before it was done.", next };
  if (job.dead_reason === "rejected") return { what: `It was held, and rejected${rejection(job)}`, next };
  if (job.dead_reason === "dependency_failed")
    return { what: "A job that it waited for was not done.", next: "Run it again to let it wait no more." };
  if (job.dead_reason === "budget_exceeded")
    return {
      what: "It spent more than its budget allows.",
      next: "Run it again once the budget allows more.",
    };
  if (job.dead_reason === "terminal")
    return {
      what: `Its worker said that trying again is no use${lastError ? `: ${firstLine(lastError)}` : "."}`,
      next,
    };
  return {
    what: `Attempt ${job.attempt} of ${job.max_retries} was the last one${lastError ? ` and failed: ${firstLine(lastError)}` : "."}`,
    next,
  };
}

function rejection(job: Job): string {
  const by = job.hold?.decided_by ? ` by ${job.hold.decided_by}` : "";
  return job.hold?.comment ? `${by}: ${firstLine(job.hold.comment)}` : `${by}.`;
}

function pausedNext(queue: Queue | undefined): { next?: string } {
  return queue?.paused ? { next: "Its queue is paused, so it will wait then." } : {};
}

function leaseSentence(at: string, now: number): string {
  const left = Date.parse(at) - now;
  return left > 0
    ? `Its lease holds for ${duration(left, 1)} more, and the worker renews it.`
    : "Its lease has just run out; it is given to another worker.";
}

function since(at: string | undefined, now: number): string {
  return at ? ` since ${duration(Math.max(0, now - Date.parse(at)), 2)}` : "";
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
