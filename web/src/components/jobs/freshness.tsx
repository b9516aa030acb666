import { Banner } from "~/components/ui/banner";
import type { Freshness } from "~/data/jobs-api";
import { count } from "~/lib/numbers";
import { duration } from "~/lib/time";

// A lag below this is not noticeable.
const LAG_WORTH_SAYING_MS = 2_000;

/** What to say about a list that is behind: "Updated 5 s ago." */
export function updated(list: Freshness | undefined): string | undefined {
  const lag = list?.lag_ms;
  return lag !== undefined && lag > LAG_WORTH_SAYING_MS ? `Updated ${duration(lag, 1)} ago.` : undefined;
}

/** Above a list that is being rebuilt. */
export function Rebuilding({ list }: { list: Freshness | undefined }) {
  if (!list?.rebuilding) return null;
  return (
    <Banner tone="info" title="Rebuilding this list">
      {list.rebuild
        ? `${count(list.rebuild.jobs_done)} of about ${count(list.rebuild.jobs_total)} jobs so far. `
        : null}
      Some jobs may be missing until it's done. Queue counts are exact, and jobs keep running.
    </Banner>
  );
}
