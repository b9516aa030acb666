import type * as Api from "~/gen/openapi";
import type { QueueSettings } from "~/lib/equivalents";
import type { Narrow } from "~/lib/narrow";
import type { JobState } from "~/lib/states";
import { DataError } from "./data-error";
import { reach } from "./reach";
import { type Scope, type TokenSource, tokens } from "./token";

export { DataError };

// The data plane's HTTP API as the console uses it, at /t/<tenant> of our own origin.
// Field names are the wire's, so that what people see here is what their code gets. Its
// types are made from the OpenAPI document.

export type Queue = Api.Queue;

export type JobRow = Api.JobRow;

export type JobError = Api.JobError;

export type Job = Narrow<
  Api.Job,
  {
    /** What the job itself remembers; the whole story is in its events. */
    timeline?: TimelineEvent[];
    /** Values of users, printed without touching a digit. */
    payload: string;
    result?: string;
    progress?: string;
    checkpoint?: string;
  }
>;

/** Why a job waits or waited for a person, and what was decided. */
export type Hold = Api.Hold;

export type JobUsage = Api.JobUsage;

/** Limits of an agent job, as far as it has some, and where it stands. */
export type Agent = Api.Agent;

/** How far a list is behind the jobs themselves. */
export type Freshness = Partial<Pick<Api.JobList, "lag_ms" | "rebuilding" | "rebuild" | "as_of">>;

export type JobsPage = Api.JobList;

export type TimelineEvent = Api.TimelineEvent;

export interface JobFilter {
  queue?: string | undefined;
  state?: readonly JobState[] | undefined;
  /** Id of a group of dead jobs. */
  error_group?: string | undefined;
  /** key:value */
  tag?: string | undefined;
  created_after?: string | undefined;
  created_before?: string | undefined;
}

export interface Enqueue {
  queue: string;
  payload: unknown;
  tags?: Record<string, string>;
  max_retries?: number;
  priority?: string;
}

export type Fetched = Api.FetchedJob;

type Problem = Partial<Api.Problem>;

async function refusal(response: Response): Promise<DataError> {
  let body: Problem = {};
  try {
    body = (await response.json()) as Problem;
  } catch {
    // A foreign proxy may answer with something else; only the status counts then.
  }
  const fields = Object.fromEntries((body.fields ?? []).map((entry) => [entry.field, entry.message]));
  return new DataError(
    response.status,
    body.code ?? "UNKNOWN",
    body.error ?? statusWords(response.status),
    body.request_id,
    fields,
  );
}

function statusWords(status: number): string {
  if (status === 403) return "Your role doesn't allow this.";
  if (status === 404) return "Not found. It may have been deleted.";
  if (status === 429) return "Too many requests. Try again in a second.";
  if (status >= 500) return "Corvo isn't responding. Try again in a few seconds.";
  return `Corvo responded with status ${status}.`;
}

/** Sends one request with a valid token; a token refused once is replaced once. */
export async function send(
  scope: Scope,
  path: string,
  init: RequestInit = {},
  source: TokenSource = tokens,
  fetcher: typeof fetch = reach,
): Promise<Response> {
  const url = `/t/${encodeURIComponent(scope.tenant)}/api/v1${path}`;
  for (let attempt = 1; ; attempt++) {
    const token = await source.get(scope);
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${token}`);
    if (init.body && !headers.has("Content-Type")) headers.set("Content-Type", "application/json");
    const response = await fetcher(url, { ...init, headers, credentials: "omit", cache: "no-store" });
    if (response.status === 401 && attempt === 1) {
      source.drop(scope, token);
      continue;
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

export async function plain<T>(scope: Scope, path: string, init?: RequestInit): Promise<T> {
  const response = await send(scope, path, init);
  return (await response.json()) as T;
}

export function post<T>(scope: Scope, path: string, body?: unknown): Promise<T> {
  return plain<T>(scope, path, { method: "POST", body: JSON.stringify(body ?? {}) });
}

export const seg = encodeURIComponent;

export function filterQuery(filter: JobFilter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.queue) query.set("queue", filter.queue);
  if (filter.state && filter.state.length > 0) query.set("state", filter.state.join(","));
  if (filter.error_group) query.set("error_group", filter.error_group);
  if (filter.tag) query.set("tag", filter.tag);
  if (filter.created_after) query.set("created_after", filter.created_after);
  if (filter.created_before) query.set("created_before", filter.created_before);
  return query;
}

export const jobsApi = {
  queues: async (scope: Scope): Promise<Queue[]> => {
    const queues = await plain<Queue[]>(scope, "/queues");
    return queues.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  },
  pause: (scope: Scope, queue: string) => post(scope, `/queues/${seg(queue)}/pause`),
  resume: (scope: Scope, queue: string) => post(scope, `/queues/${seg(queue)}/resume`),
  /** All limits of a queue: a missing one means no limit. Pausing is separate. */
  setLimits: (scope: Scope, queue: string, settings: QueueSettings) =>
    plain<Queue>(scope, `/queues/${seg(queue)}`, { method: "PUT", body: JSON.stringify(settings) }),
  deleteQueue: (scope: Scope, queue: string) =>
    plain(scope, `/queues/${seg(queue)}?confirm=true`, { method: "DELETE" }),
  jobs: async (
    scope: Scope,
    filter: JobFilter,
    cursor: string | undefined,
    limit = 100,
  ): Promise<JobsPage> => {
    const query = filterQuery(filter);
    query.set("limit", String(limit));
    if (cursor) query.set("cursor", cursor);
    const page = await plain<JobsPage>(scope, `/jobs?${query}`);
    return { ...page, jobs: page.jobs ?? [] };
  },
  /** The exact text; see job-decode.ts. */
  job: async (scope: Scope, id: string): Promise<string> => (await send(scope, `/jobs/${seg(id)}`)).text(),
  timeline: async (scope: Scope, id: string): Promise<TimelineEvent[]> =>
    (await plain<{ events?: TimelineEvent[] }>(scope, `/jobs/${seg(id)}/events`)).events ?? [],
  /** Progress of jobs as their workers report it, as exact text, by id. */
  progress: async (scope: Scope, ids: readonly string[]): Promise<Record<string, string>> => {
    const { jobs } = await post<{ jobs?: { id: string; progress?: unknown }[] }>(scope, "/jobs/bulk-get", {
      job_ids: ids,
    });
    return Object.fromEntries(
      (jobs ?? []).flatMap(({ id, progress }) =>
        progress === undefined ? [] : [[id, JSON.stringify(progress)]],
      ),
    );
  },
  retry: (scope: Scope, id: string) => post<{ status: string }>(scope, `/jobs/${seg(id)}/retry`),
  cancel: (scope: Scope, id: string) => post<{ status: string }>(scope, `/jobs/${seg(id)}/cancel`),
  remove: (scope: Scope, id: string) =>
    plain<{ status: string }>(scope, `/jobs/${seg(id)}`, { method: "DELETE" }),
  enqueue: (scope: Scope, job: Enqueue) => post<{ job_id: string; status: string }>(scope, "/enqueue", job),
  /** Leases one job, waiting for it up to `seconds`; null if none came. */
  fetchOne: async (
    scope: Scope,
    queue: string,
    worker: string,
    seconds: number,
    signal: AbortSignal,
  ): Promise<Fetched | null> => {
    const body = JSON.stringify({ queues: [queue], worker_id: worker, timeout: seconds });
    const response = await send(scope, "/fetch", { method: "POST", body, signal });
    return response.status === 204 ? null : ((await response.json()) as Fetched);
  },
  ack: (scope: Scope, job: Fetched, result: unknown) =>
    post(scope, `/ack/${seg(job.job_id)}`, { lease_token: job.lease_token, result }),
} as const;
