import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { type Page, pageApi } from "./page-api";
import type { Scope } from "./token";

const key = (scope: Scope, ...parts: unknown[]) => ["data", scope.tenant, scope.namespace, ...parts];

/** A list that is read page by page. */
function pages<Row>(queryKey: unknown[], read: (cursor: string | undefined) => Promise<Page<Row>>) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam }) => read(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.cursor,
    staleTime: 3_000,
  });
}

/** The reads of pages that are loaded when they are visited. */
export const pageReads = {
  dead: (scope: Scope, queue: string | undefined, group: string | undefined) =>
    pages(key(scope, "dead", "jobs", queue ?? null, group ?? null), (cursor) =>
      pageApi.dead(scope, queue, group, cursor),
    ),
  /** The largest groups of dead jobs, at most so many. */
  deadGroups: (scope: Scope, queue: string | undefined, limit: number) => {
    const ofQueue = key(scope, "dead", "groups", queue ?? null);
    return queryOptions({
      queryKey: [...ofQueue, limit],
      queryFn: () => pageApi.deadGroups(scope, queue, limit),
      // More groups of the same queue take the place of fewer.
      placeholderData: (was, query) =>
        ofQueue.every((part, n) => query?.queryKey[n] === part) ? was : undefined,
      staleTime: 3_000,
    });
  },
  /** Everything about dead jobs: a key to invalidate. */
  allDead: (scope: Scope) => key(scope, "dead"),
  schedules: (scope: Scope) => pages(key(scope, "schedules"), (cursor) => pageApi.schedules(scope, cursor)),
  schedule: (scope: Scope, id: string) =>
    queryOptions({
      queryKey: key(scope, "schedules", id),
      queryFn: () => pageApi.schedule(scope, id),
      staleTime: 3_000,
    }),
  preview: (scope: Scope, cron: string, timezone: string) =>
    queryOptions({
      queryKey: key(scope, "preview", cron, timezone),
      queryFn: () => pageApi.preview(scope, cron, timezone),
      staleTime: 30_000,
      retry: false,
    }),
  batches: (scope: Scope) => pages(key(scope, "batches"), (cursor) => pageApi.batches(scope, cursor)),
  batch: (scope: Scope, id: string) =>
    infiniteQueryOptions({
      queryKey: key(scope, "batches", id),
      queryFn: ({ pageParam }) => pageApi.batch(scope, id, pageParam),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: (last) => last.cursor,
      staleTime: 2_000,
    }),
  chains: (scope: Scope) => pages(key(scope, "chains"), (cursor) => pageApi.chains(scope, cursor)),
  chain: (scope: Scope, id: string) =>
    queryOptions({
      queryKey: key(scope, "chains", id),
      queryFn: () => pageApi.chain(scope, id),
      staleTime: 2_000,
    }),
  why: (scope: Scope, id: string) =>
    queryOptions({
      queryKey: key(scope, "why", id),
      queryFn: () => pageApi.why(scope, id),
      staleTime: 1_000,
      // Workers come and places move without an event of this job.
      refetchInterval: 5_000,
    }),
  iterations: (scope: Scope, id: string) =>
    pages(key(scope, "iterations", id), (after) => pageApi.iterations(scope, id, after)),
  throughput: (scope: Scope) =>
    queryOptions({
      queryKey: key(scope, "throughput"),
      queryFn: () => pageApi.throughput(scope),
      staleTime: 2_000,
      // A new minute starts even if nothing happens.
      refetchInterval: 20_000,
    }),
  workers: (scope: Scope) =>
    queryOptions({
      queryKey: key(scope, "workers"),
      queryFn: async () => {
        const [workers, leased] = await Promise.all([pageApi.workers(scope), pageApi.leased(scope)]);
        return { workers, ...leased };
      },
      staleTime: 2_000,
      // A fetch without jobs sends no event.
      refetchInterval: 10_000,
    }),
  held: (scope: Scope) => pages(key(scope, "held"), (cursor) => pageApi.held(scope, cursor)),
  policies: (scope: Scope) =>
    queryOptions({
      queryKey: key(scope, "policies"),
      queryFn: () => pageApi.policies(scope),
      staleTime: 10_000,
    }),
  usage: (scope: Scope, period: string, by: string) =>
    queryOptions({
      queryKey: key(scope, "usage", period, by),
      queryFn: () => pageApi.usage(scope, period, by),
      staleTime: 10_000,
    }),
  budgets: (scope: Scope) =>
    queryOptions({
      queryKey: key(scope, "budgets"),
      queryFn: () => pageApi.budgets(scope),
      staleTime: 5_000,
    }),
} as const;
