import { useQuery } from "@tanstack/react-query";
import { Time } from "~/components/ui/time";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";

/** Why a job isn't running; reasons that can be fixed come first. */
export default function WhyCard({ scope, id }: { scope: Scope; id: string }) {
  const { data } = useQuery(pageReads.why(scope, id));
  useRefresh(pageReads.why(scope, id).queryKey, (event) => event.job_id === id);
  if (!data || data.reasons.length === 0) return null;
  return (
    <section
      aria-label="Why it isn't running"
      className="flex flex-col gap-2 rounded-xl border border-line bg-surface px-4 py-3 shadow-1"
    >
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <h2 className="text-13 font-semibold">Why it isn't running</h2>
        {data.eta ? (
          <p className="text-12 text-ink-3">
            It can run <Time at={data.eta} />
          </p>
        ) : null}
      </div>
      <ol className="flex flex-col gap-1.5">
        {data.reasons.map((reason, index) => (
          <li key={reason.code} className="grid grid-cols-[1.25rem_minmax(0,1fr)_auto] gap-x-2 text-13">
            <span aria-hidden className="nums text-ink-3">
              {index + 1}
            </span>
            <span className="wrap-anywhere text-ink-2 first-letter:uppercase">{reason.message}</span>
            {reason.until && reason.code !== "runs_next" ? (
              <Time at={reason.until} className="text-12 leading-5 text-ink-3" />
            ) : null}
          </li>
        ))}
      </ol>
    </section>
  );
}
