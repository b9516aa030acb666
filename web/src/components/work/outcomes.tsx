import { clsx } from "clsx";
import type { Batch } from "~/data/page-api";
import { count } from "~/lib/numbers";

const outcomes = [
  ["completed", "completed", "bg-ok-text"],
  ["dead", "dead", "bg-danger-text"],
  ["cancelled", "cancelled", "bg-ink-3"],
  ["deleted", "deleted", "bg-line-strong"],
] as const;

/** How the members of a batch ended, as a bar; the words below it say the same. */
export function Outcomes({ batch, words = true }: { batch: Batch; words?: boolean }) {
  const share = (value: number) => `${batch.total > 0 ? (100 * value) / batch.total : 0}%`;
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      <span
        aria-hidden
        className={clsx("flex overflow-hidden rounded-full bg-muted-soft", words ? "h-2.5" : "h-1.5")}
      >
        {outcomes.map(([field, , colour]) =>
          batch[field] > 0 ? (
            <span
              key={field}
              className={clsx("h-full min-w-1", colour)}
              style={{ width: share(batch[field]) }}
            />
          ) : null,
        )}
      </span>
      {words ? (
        <ul className="flex flex-wrap gap-x-4 gap-y-1 text-12 text-ink-2">
          {outcomes.map(([field, word, colour]) => (
            <li key={field} className="nums inline-flex items-center gap-1.5">
              <span aria-hidden className={clsx("size-2 rounded-full", colour)} />
              {count(batch[field])} {word}
            </li>
          ))}
          <li className="nums inline-flex items-center gap-1.5">
            <span aria-hidden className="size-2 rounded-full border border-ink-3" />
            {count(batch.open)} not finished
          </li>
        </ul>
      ) : null}
    </div>
  );
}
