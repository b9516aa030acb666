import { clsx } from "clsx";
import { Time, useNow } from "~/components/ui/time";
import type { TimelineEvent } from "~/data/jobs-api";
import { duration } from "~/lib/time";
import { attempts, iterates, type TimelineTone, timelineEntries } from "~/lib/timeline";

const dots: Record<TimelineTone, string> = {
  neutral: "bg-ink-3",
  info: "bg-info-text",
  ok: "bg-ok-text",
  warn: "bg-warn-text",
  danger: "bg-danger-text",
  violet: "bg-violet-text",
  pink: "bg-pink-text",
};

interface TimelineProps {
  events: readonly TimelineEvent[];
  /** The iteration that an agent job is in. */
  iteration?: number | undefined;
}

/** Everything that happened to a job, in order. */
export function Timeline({ events, iteration }: TimelineProps) {
  return (
    <ol className="relative flex flex-col">
      {timelineEntries(events, iteration).map((entry, index, all) => (
        <li
          key={entry.key}
          className="relative grid grid-cols-[1rem_minmax(0,1fr)_auto] gap-x-3 pb-4 last:pb-0"
        >
          {index < all.length - 1 ? (
            <span aria-hidden className="absolute top-4 bottom-0 left-[7.5px] w-px bg-line" />
          ) : null}
          <span aria-hidden className="grid h-5.5 place-items-center">
            <span className={clsx("size-2 rounded-full ring-4 ring-surface", dots[entry.tone])} />
          </span>
          <div className="min-w-0">
            <p className="text-13 leading-5.5 font-medium">
              {entry.title}
              {entry.gap ? (
                <span className="nums ml-2 text-12 font-normal text-ink-3">{entry.gap}</span>
              ) : null}
            </p>
            {entry.detail ? (
              <p
                className={clsx(
                  "text-12 wrap-anywhere",
                  entry.tone === "danger" || entry.tone === "warn" ? "font-mono text-ink-2" : "text-ink-3",
                )}
              >
                {entry.detail}
              </p>
            ) : null}
          </div>
          <Time at={entry.at} className="text-12 leading-5.5 text-ink-3" />
        </li>
      ))}
    </ol>
  );
}

const bars = {
  running: "bg-info-text",
  completed: "bg-ok-text",
  failed: "bg-danger-text",
  ended: "bg-ink-3",
} as const;
const outcomes = { running: "runs", completed: "completed", failed: "failed", ended: "ended" } as const;

/** Attempts as bars over the time they took; the numbers beside them say the same. */
export function Attempts({ events, iteration }: TimelineProps) {
  const now = useNow();
  const list = attempts(events, iteration);
  const unit = iterates(events) ? "Iteration" : "Attempt";
  if (list.length === 0) return null;
  const begin = Date.parse(list[0]?.from ?? "");
  const end = Math.max(...list.map((attempt) => (attempt.to ? Date.parse(attempt.to) : now)), begin + 1);
  const share = (ms: number) => `${Math.max(0, Math.min(100, (ms / (end - begin)) * 100))}%`;
  return (
    <ul
      aria-label={`${unit}s`}
      className="flex flex-col gap-1.5 rounded-lg border border-line bg-sunken/60 p-3"
    >
      {list.map((attempt, index) => {
        const from = Date.parse(attempt.from);
        const to = attempt.to ? Date.parse(attempt.to) : now;
        return (
          <li
            key={`${attempt.number}-${index}`}
            className="grid grid-cols-[1.5rem_minmax(0,1fr)_auto] items-center gap-3 text-12"
          >
            <span className="nums text-ink-3">
              <span className="sr-only">{unit} </span>
              {attempt.number}
            </span>
            <span aria-hidden className="relative h-2 rounded-full bg-muted-soft">
              <span
                className={clsx(
                  "absolute inset-y-0 min-w-1 rounded-full",
                  bars[attempt.outcome],
                  attempt.outcome === "running" && "animate-pulse",
                )}
                style={{ left: share(from - begin), width: share(to - from) }}
              />
            </span>
            <span className="nums w-32 truncate text-right text-ink-2">
              {outcomes[attempt.outcome]}
              {attempt.outcome === "running" ? " for " : " in "}
              {duration(Math.max(0, to - from))}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
