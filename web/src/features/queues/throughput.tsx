import { useQuery } from "@tanstack/react-query";
import { clsx } from "clsx";
import { Bars } from "~/components/ui/bars";
import { Reveal } from "~/components/ui/reveal";
import { Skeleton } from "~/components/ui/skeleton";
import type { LiveEvent } from "~/data/events";
import type { Minute } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";
import { compact, count } from "~/lib/numbers";
import { type Measure, measures, rate } from "~/lib/throughput";

// Under load something happens all the time.
const REFRESH_MS = 3_000;

const counted = new Set(["enqueued", "scheduled", "completed", "failed", "lease_expired"]);
const concerns = (event: LiveEvent) => counted.has(event.type);

const words: Record<Measure, string> = {
  enqueued: "Enqueued",
  completed: "Completed",
  failed: "Failed",
};
const fills: Record<Measure, string> = {
  enqueued: "fill-info-text",
  completed: "fill-ok-text",
  failed: "fill-danger-text",
};

/** Jobs of the namespace that were enqueued, completed and failed in each minute of the last hour. */
export default function Throughput({ scope }: { scope: Scope }) {
  const { data, error } = useQuery(pageReads.throughput(scope));
  useRefresh(pageReads.throughput(scope).queryKey, concerns, REFRESH_MS);
  return (
    <section
      aria-labelledby="throughput"
      className="overflow-hidden rounded-xl border border-line bg-surface shadow-1"
    >
      <div className="flex flex-wrap items-baseline justify-between gap-x-4 px-4 pt-3 pb-2">
        <h2 id="throughput" className="text-14 font-semibold">
          Throughput
        </h2>
        <p className="text-12 text-ink-3">all queues, each minute of the last hour</p>
      </div>
      {error && !data ? (
        <p className="px-4 py-8 text-center text-13 text-ink-3">Couldn't load throughput.</p>
      ) : (
        <div className="grid grid-cols-3 divide-x divide-line border-t border-line">
          {measures.map((measure) => (
            <Chart key={measure} measure={measure} minutes={data} />
          ))}
        </div>
      )}
      {data ? <AsTable minutes={data} /> : null}
    </section>
  );
}

function Chart({ measure, minutes }: { measure: Measure; minutes: readonly Minute[] | undefined }) {
  const all = rate(minutes ?? [], measure);
  // What has only just begun is told from its first minute.
  const begun = all.last === 0 && all.running > 0;
  const now = begun ? all.running : all.last;
  return (
    <div className="min-w-0 px-3 py-2.5 sm:px-4">
      <p className="flex items-center gap-1.5 text-12 text-ink-3">
        <svg aria-hidden="true" viewBox="0 0 8 8" className={clsx("size-2 shrink-0", fills[measure])}>
          <rect width="8" height="8" rx="2" />
        </svg>
        <span className="truncate">{words[measure]}</span>
      </p>
      {minutes === undefined ? (
        <Skeleton className="my-1 h-5 w-16" />
      ) : (
        <p className="text-20 font-semibold tracking-tight">
          <span className={clsx("nums", now === 0 && "text-ink-3")} title={count(now)}>
            {compact(now)}
          </span>{" "}
          <span className="text-12 font-normal tracking-normal text-ink-3">
            {begun ? "this minute" : "/ min"}
          </span>
        </p>
      )}
      <Bars
        label={
          minutes === undefined
            ? `${words[measure]}, loading`
            : `${words[measure]}: ${count(all.last)} in the last full minute, at most ${count(all.peak)} in a minute, ${count(all.total)} in the last hour`
        }
        fill={fills[measure]}
        bars={all.bars.map((height, index) => ({
          key: minutes?.[index]?.minute ?? String(index),
          height,
          runs: index === all.bars.length - 1,
        }))}
      />
      <p className="nums mt-1.5 flex justify-between gap-2 text-11 text-ink-3">
        <span className="truncate">{minutes ? `${compact(all.total)} in the hour` : ""}</span>
        <span className="truncate max-sm:hidden">
          {minutes && all.peak > 0 ? `peak ${compact(all.peak)}` : ""}
        </span>
      </p>
    </div>
  );
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

/** The same numbers to read. */
function AsTable({ minutes }: { minutes: readonly Minute[] }) {
  const eventful = minutes.filter((minute) => measures.some((measure) => minute[measure] > 0));
  return (
    <Reveal label="Throughput as a table">
      {eventful.length === 0 ? (
        <p className="pb-3 text-13 text-ink-3">Nothing happened in the last hour.</p>
      ) : (
        <table className="nums w-full text-right text-13">
          <caption className="pb-2 text-left text-12 text-ink-3">
            Newest first. Minutes without activity are left out; the first may still be in progress.
          </caption>
          <thead>
            <tr className="border-b border-line text-12 text-ink-3">
              <th scope="col" className="py-1.5 text-left font-medium">
                Minute
              </th>
              {measures.map((measure) => (
                <th key={measure} scope="col" className="py-1.5 pl-3 font-medium">
                  {words[measure]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {[...eventful].reverse().map((minute) => (
              <tr key={minute.minute}>
                <th scope="row" className="py-1.5 text-left font-normal text-ink-2">
                  <time dateTime={minute.minute}>{clock.format(new Date(minute.minute))}</time>
                </th>
                {measures.map((measure) => (
                  <td key={measure} className={clsx("py-1.5 pl-3", minute[measure] === 0 && "text-ink-3")}>
                    {count(minute[measure])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Reveal>
  );
}
