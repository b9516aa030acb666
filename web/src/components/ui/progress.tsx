import { clsx } from "clsx";
import type { Progress } from "~/lib/progress";

/** How far a job is, as its worker reports it. */
export function ProgressBar({ progress, className }: { progress: Progress; className?: string }) {
  const percent = Math.round(progress.share * 100);
  const text = progress.text ? `${progress.text} (${percent}%)` : `${percent}%`;
  return (
    <span className={clsx("flex min-w-0 items-center gap-2.5", className)}>
      <span
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={text}
        className="h-1.5 min-w-12 flex-1 overflow-hidden rounded-full bg-muted-soft"
      >
        <span
          className="block h-full rounded-full bg-info-text transition-[width] duration-300"
          style={{ width: `${percent}%` }}
        />
      </span>
      <span aria-hidden className="nums shrink-0 text-12 text-ink-2">
        {text}
      </span>
      {progress.note ? <span className="min-w-0 truncate text-12 text-ink-3">{progress.note}</span> : null}
    </span>
  );
}
