import { infiniteQueryOptions, QueryCache, QueryClient, queryOptions } from "@tanstack/react-query";
import { control, isDenied, isNotFound, isUnauthenticated } from "./control";
import { DataError, type JobFilter, jobsApi } from "./jobs-api";
import { isUnreachable } from "./reach";
import { type Scope, tokens } from "./token";

/** Rows of one page of jobs. */
export const PAGE = 100;

/** Every read of the console in one place: a key and how to fetch it. */
export const reads = {
  identity: () =>
    queryOptions({
      queryKey: ["identity"],
      queryFn: () => control.auth.getCurrentIdentity({}),
      staleTime: 60_000,
    }),
  namespaces: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "namespaces"],
      queryFn: async () => (await control.namespaces.listNamespaces({ tenant, pageSize: 1000 })).namespaces,
      staleTime: 30_000,
    }),
  rights: (scope: Scope) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "rights"],
      queryFn: () => tokens.rights(scope),
      staleTime: 60_000,
    }),
  queues: (scope: Scope) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "queues"],
      queryFn: () => jobsApi.queues(scope),
      staleTime: 5_000,
    }),
  jobs: (scope: Scope, filter: JobFilter) =>
    infiniteQueryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "jobs", filter],
      queryFn: ({ pageParam }) => jobsApi.jobs(scope, filter, pageParam, PAGE),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: (last) => (last.has_more ? last.cursor : undefined),
      staleTime: 10_000,
      // Rows must not move under somebody who comes back to them; new ones wait to be shown.
      refetchOnWindowFocus: false,
    }),
  failures: (scope: Scope) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "failures"],
      queryFn: async () => (await jobsApi.jobs(scope, { state: ["dead", "retrying"] }, undefined, 5)).jobs,
      staleTime: 5_000,
      refetchInterval: 15_000,
    }),
  progress: (scope: Scope, ids: readonly string[]) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "progress", ids],
      queryFn: () => jobsApi.progress(scope, ids),
      enabled: ids.length > 0,
      placeholderData: (was) => was,
      // Progress reports send no event with the progress.
      refetchInterval: 5_000,
    }),
  job: (scope: Scope, id: string) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "job", id],
      queryFn: async () => {
        const [text, { decodeJob }] = await Promise.all([jobsApi.job(scope, id), import("./job-decode")]);
        return decodeJob(text);
      },
      staleTime: 2_000,
    }),
  timeline: (scope: Scope, id: string) =>
    queryOptions({
      queryKey: ["data", scope.tenant, scope.namespace, "timeline", id],
      queryFn: () => jobsApi.timeline(scope, id),
      staleTime: 2_000,
    }),
} as const;

function worthRetrying(failures: number, error: unknown): boolean {
  if (isUnauthenticated(error) || isNotFound(error) || isDenied(error)) return false;
  if (error instanceof DataError) return failures < 3 && (error.status >= 500 || error.status === 429);
  return failures < (isUnreachable(error) ? 1 : 2);
}

/** A cache whose reads end at `onSignedOut` when the session is over. */
export function newQueryClient(onSignedOut: () => void): QueryClient {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error) => {
        if (isUnauthenticated(error)) onSignedOut();
      },
    }),
    defaultOptions: {
      // Without a network a read fails like any other, and its page says so: by itself it would
      // wait without a word.
      queries: {
        retry: worthRetrying,
        networkMode: "always",
        refetchOnReconnect: "always",
        refetchOnWindowFocus: true,
        gcTime: 5 * 60_000,
      },
      mutations: { retry: false, networkMode: "always" },
    },
  });
}

/**
 * Forgets what was read as somebody else. The page's own read of its one-time link stays:
 * the link is used up, and asking again would show the page that says so.
 */
export function forgetAllBut(client: QueryClient, kept: string): void {
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== kept });
}
