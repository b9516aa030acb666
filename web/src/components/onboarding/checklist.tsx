import { Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import { Check, CircleAlert, LoaderCircle } from "lucide-react";
import type { ReactNode } from "react";
import { Mark } from "~/components/logo";
import { buttonClass } from "~/components/ui/button";
import type { LiveStatus } from "~/data/stream";
import type { Scope } from "~/data/token";
import type { FirstJob } from "~/lib/first-job";
import { duration } from "~/lib/time";

interface ChecklistProps {
  scope: Scope;
  status: LiveStatus;
  first: FirstJob;
}

interface Step {
  title: string;
  detail: ReactNode;
  done: boolean;
  failed?: boolean;
}

/** The life of the first job, each step ticked by a real event. */
export function Checklist({ scope, status, first }: ChecklistProps) {
  const took = (from?: string, to?: string) =>
    from && to ? duration(Date.parse(to) - Date.parse(from)) : "";
  const steps: Step[] = [
    {
      title: "Request received",
      detail: first.enqueuedAt
        ? "Corvo received your request"
        : status === "live"
          ? "Waiting for your first request"
          : "Connecting",
      done: Boolean(first.enqueuedAt),
    },
    {
      title: "Job enqueued",
      detail: first.job ? (
        <Link
          to="/$tenant/$namespace/jobs/$job"
          params={{ ...scope, job: first.job }}
          className="block truncate font-mono text-12 text-accent-text underline-offset-2 hover:underline"
        >
          {first.job}
        </Link>
      ) : (
        "Stored on a majority of nodes before you get a response"
      ),
      done: Boolean(first.enqueuedAt),
    },
    {
      title: "Worker connected",
      detail: first.startedAt ? "A worker fetched it" : "Waiting for a worker",
      done: Boolean(first.startedAt),
    },
    {
      title: "Running",
      detail: first.failedAt
        ? "The attempt failed and will be retried"
        : first.startedAt
          ? `After ${took(first.enqueuedAt, first.startedAt)} in the queue`
          : "The worker holds a lease",
      done: Boolean(first.doneAt),
      failed: Boolean(first.failedAt) && !first.doneAt,
    },
    {
      title: "Done",
      detail: first.doneAt
        ? `In ${took(first.startedAt, first.doneAt)}`
        : "Waiting for the worker to acknowledge it",
      done: Boolean(first.doneAt),
    },
  ];
  const next = steps.findIndex((step) => !step.done);

  return (
    <section
      aria-label="Progress of your first job"
      className="overflow-hidden rounded-xl border border-line bg-surface shadow-1"
    >
      <div className="flex items-center justify-between border-b border-line px-4 py-3">
        <h2 className="text-14 font-semibold">Your first job</h2>
        <span className="nums text-12 text-ink-3">
          {steps.filter((step) => step.done).length} of {steps.length}
        </span>
      </div>
      <ol className="px-4 py-3" aria-live="polite">
        {steps.map((step, index) => (
          <li key={step.title} className="relative flex gap-3 pb-4 last:pb-1">
            {index < steps.length - 1 ? (
              <span
                aria-hidden
                className={clsx(
                  "absolute top-6 bottom-0 left-[11px] w-px",
                  step.done ? "bg-ok-line" : "bg-line",
                )}
              />
            ) : null}
            <span
              className={clsx(
                "relative grid size-6 shrink-0 place-items-center rounded-full border",
                step.done
                  ? "border-ok-line bg-ok-soft text-ok-text"
                  : step.failed
                    ? "border-danger-line bg-danger-soft text-danger-text"
                    : "border-line-strong bg-surface text-ink-3",
              )}
            >
              {step.done ? (
                <Check aria-hidden className="size-3.5" />
              ) : step.failed ? (
                <CircleAlert aria-hidden className="size-3.5" />
              ) : index === next ? (
                <LoaderCircle aria-hidden className="size-3.5 animate-spin" />
              ) : (
                <span className="size-1.5 rounded-full bg-line-strong" />
              )}
              <span className="sr-only">{step.done ? "Done: " : step.failed ? "Failed: " : "Not yet: "}</span>
            </span>
            <div className="min-w-0 pt-0.5">
              <p className={clsx("text-13 font-medium", !step.done && index !== next && "text-ink-2")}>
                {step.title}
              </p>
              <div className={clsx("min-w-0 text-12", step.failed ? "text-danger-text" : "text-ink-3")}>
                {step.detail}
              </div>
            </div>
          </li>
        ))}
      </ol>
      {first.doneAt ? (
        <Celebration scope={scope} first={first} total={took(first.enqueuedAt, first.doneAt)} />
      ) : null}
    </section>
  );
}

function Celebration({ scope, first, total }: { scope: Scope; first: FirstJob; total: string }) {
  return (
    <div className="relative animate-rise overflow-hidden border-t border-line bg-ok-soft px-4 py-4">
      <Mark className="absolute -right-3 -bottom-4 size-24 opacity-15" />
      <p className="text-14 font-semibold">That was your first job.</p>
      <p className="mt-0.5 text-13 text-ink-2">
        It took <strong className="nums font-medium text-ink">{total}</strong> from enqueue to done.
      </p>
      <div className="relative mt-3 flex flex-wrap gap-2">
        <Link
          to="/$tenant/$namespace/jobs/$job"
          params={{ ...scope, job: first.job ?? "" }}
          className={buttonClass("primary", "sm")}
        >
          Open job
        </Link>
        <Link
          to="/$tenant/$namespace"
          params={scope}
          search={{ view: "numbers" }}
          className={buttonClass("secondary", "sm")}
        >
          Go to overview
        </Link>
      </div>
    </div>
  );
}
