import { Skeleton } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { timeIn } from "~/lib/zones";

/** The next runs, in a time zone's local time. */
export function NextRuns({ runs, timezone }: { runs: readonly string[] | undefined; timezone: string }) {
  if (runs === undefined) return <Skeleton className="mt-2 h-24 w-64" />;
  if (runs.length === 0) return <p className="mt-1 text-13 text-ink-3">It never runs.</p>;
  return (
    <ol aria-label="Next runs" className="mt-1.5 flex flex-col gap-1">
      {runs.slice(0, 5).map((at) => (
        <li key={at} className="grid grid-cols-[minmax(0,1fr)_auto] gap-3 text-12">
          <span className="nums text-ink-2">{timeIn(at, timezone)}</span>
          <Time at={at} className="text-ink-3" />
        </li>
      ))}
    </ol>
  );
}
