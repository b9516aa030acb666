import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ArrowUp, SearchX } from "lucide-react";
import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { Filters } from "~/components/jobs/filters";
import { Rebuilding, updated } from "~/components/jobs/freshness";
import { JobList } from "~/components/jobs/job-list";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { isNew, stateAfter } from "~/data/events";
import type { Freshness, JobFilter } from "~/data/jobs-api";
import { useLive, useLiveEvents } from "~/data/live";
import { PAGE, reads } from "~/data/queries";
import { jobsEquivalents } from "~/lib/equivalents";
import { isFiltered, type JobSearch, withinBound } from "~/lib/job-search";
import { count, plural } from "~/lib/numbers";
import { useShortcuts } from "~/lib/shortcuts";

const route = getRouteApi("/$tenant/$namespace/jobs");

const NoJobs = lazy(() => import("~/components/jobs/no-jobs"));

/** The jobs of a namespace, newest first; every filter is in the URL. */
export function JobsPage() {
  const scope = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/jobs" });
  const client = useQueryClient();
  const live = useLive();
  const filter = useFilter(search);
  const jobs = useInfiniteQuery(reads.jobs(scope, filter));
  const rows = useMemo(() => jobs.data?.pages.flatMap((page) => page.jobs), [jobs.data]);
  const newest = jobs.data?.pages[0];
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  useCopyAs(jobsEquivalents(filter));

  const filterKey = JSON.stringify(filter);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other filters, other new rows
  useEffect(() => setFresh(new Set()), [filterKey]);

  useLiveEvents((events) => {
    const ids = events
      .filter((event) => isNew(event) && mayMatch(filter, event.queue, stateAfter(event)))
      .map((event) => event.job_id)
      .filter((id): id is string => id !== undefined);
    if (ids.length > 0) setFresh((was) => new Set([...was, ...ids]));
  });

  const show = useCallback(async () => {
    const wanted = fresh;
    setFresh(new Set());
    window.scrollTo({ top: 0 });
    const { queryKey } = reads.jobs(scope, filter);
    // Only the first page is asked for again; the rest follows by scrolling.
    await client.resetQueries({ queryKey });
    // Events are faster than the list, by less than a second.
    for (let tries = 0; tries < 4; tries++) {
      const listed = new Set(client.getQueryData(queryKey)?.pages[0]?.jobs.map((row) => row.id));
      if ([...wanted].every((id) => listed.has(id)) || listed.size >= PAGE) return;
      await new Promise((resolve) => setTimeout(resolve, 400));
      await client.refetchQueries({ queryKey });
    }
  }, [client, scope, filter, fresh]);

  // An empty list has no row that could move.
  const empty = rows?.length === 0;
  useEffect(() => {
    if (!empty || fresh.size === 0) return;
    const timer = window.setTimeout(() => void show(), 600);
    return () => window.clearTimeout(timer);
  }, [empty, fresh, show]);

  useShortcuts({ n: () => void show() });

  const change = (part: Partial<JobSearch>) =>
    void navigate({ search: (was) => prune({ ...was, ...part }), resetScroll: false });
  const clear = () => void navigate({ search: {} });
  const { fetchNextPage } = jobs;
  const more = useCallback(() => void fetchNextPage(), [fetchNextPage]);

  return (
    <Page
      description={describe(rows?.length, jobs.hasNextPage, newest)}
      actions={
        live?.paused ? (
          <Button size="sm" onClick={() => void show()}>
            Refresh
          </Button>
        ) : null
      }
    >
      <Filters scope={scope} search={search} onChange={change} onClear={clear} />
      <Rebuilding list={newest} />
      <p role="status" className="sr-only">
        {fresh.size > 0 ? `${plural(fresh.size, "new job")}, not shown yet` : ""}
      </p>
      <div className="relative">
        {fresh.size > 0 && !empty ? (
          <div className="pointer-events-none sticky top-14 z-20 -mb-8 flex -translate-y-4 justify-center">
            <button
              type="button"
              onClick={() => void show()}
              className="pointer-events-auto flex h-8 animate-rise items-center gap-1.5 rounded-full bg-accent px-3.5 text-12 font-medium text-accent-on shadow-3 hover:bg-accent-strong"
            >
              <ArrowUp aria-hidden className="size-3.5" />
              {count(fresh.size)} new
            </button>
          </div>
        ) : null}
        {jobs.error && !rows ? (
          <Problem error={jobs.error} onRetry={() => void jobs.refetch()} />
        ) : rows === undefined ? (
          <div className="overflow-hidden rounded-xl border border-line bg-surface">
            <SkeletonRows rows={12} columns={5} label="Loading jobs" />
          </div>
        ) : rows.length === 0 && !jobs.hasNextPage ? (
          isFiltered(search) ? (
            <EmptyState
              icon={<SearchX aria-hidden />}
              title="No matching jobs"
              action={<Button onClick={clear}>Clear filters</Button>}
            >
              Try other filters. New jobs that match appear here.
            </EmptyState>
          ) : (
            <Suspense>
              <NoJobs scope={scope} />
            </Suspense>
          )
        ) : (
          <>
            <JobList
              scope={scope}
              rows={rows}
              hasMore={jobs.hasNextPage && !jobs.isFetchNextPageError}
              loadingMore={jobs.isFetchingNextPage}
              onMore={more}
            />
            <p role="status" className="py-3 text-center text-12 text-ink-3">
              {jobs.isFetchNextPageError ? (
                <Button size="sm" onClick={more}>
                  Couldn't load more. Try again
                </Button>
              ) : jobs.hasNextPage ? (
                "Loading more…"
              ) : (
                "End of list"
              )}
            </p>
          </>
        )}
      </div>
    </Page>
  );
}

function useFilter(search: JobSearch): JobFilter {
  return useMemo(
    () => ({
      queue: search.queue,
      state: search.state,
      tag: search.tag,
      created_after: search.within ? withinBound(search.within, Date.now()) : search.after,
      created_before: search.before,
    }),
    [search],
  );
}

/** Whether a job that was just enqueued could stand in the list. Tags are not in the event. */
function mayMatch(filter: JobFilter, queue: string | undefined, state: string | null): boolean {
  if (filter.queue && filter.queue !== queue) return false;
  if (filter.created_before) return false;
  return !filter.state || filter.state.some((wanted) => wanted === state);
}

function prune(search: JobSearch): JobSearch {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as JobSearch;
}

function describe(rows: number | undefined, more: boolean, list: Freshness | undefined): string {
  if (rows === undefined) return "Loading";
  const shown = more ? `Newest ${count(rows)}. Scroll for more` : `${plural(rows, "job")}, newest first`;
  const late = updated(list);
  return late ? `${shown}. ${late}` : shown;
}
