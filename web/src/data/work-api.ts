import { member, parseLossless, printLossless, toPlain } from "~/lib/json";
import type { JobState } from "~/lib/states";
import { type Freshness, type JobRow, jobsApi, plain, post, seg, send } from "./jobs-api";
import type { Scope } from "./token";

// What goes beyond single jobs and queues. Apart from jobs-api.ts, which every page loads.

/** A page of a list, and where the next one begins. */
export interface Page<Row> {
  rows: Row[];
  cursor?: string | undefined;
}

/** The dead jobs of one queue that died of one cause, however many there are. */
export interface ErrorGroup {
  id: string;
  queue: string;
  /** With … for what varies; without one dead_reason tells. */
  error?: string;
  dead_reason?: string;
  count: number;
  /** When the first and the latest of them died. */
  first_at?: string | null;
  last_at?: string | null;
}

/** The largest groups, and how many there are of groups and jobs in all. */
export interface ErrorGroups extends Freshness {
  groups: ErrorGroup[];
  total_groups: number;
  total_jobs: number;
  /** Smaller groups were left out. */
  has_more: boolean;
}

export interface Schedule {
  id: string;
  name: string;
  cron: string;
  timezone: string;
  queue: string;
  paused: boolean;
  overlap?: string;
  catch_up?: string;
  /** Text of a duration. */
  jitter?: string;
  priority?: string;
  max_retries?: number;
  expire_after?: string;
  tags?: Record<string, string>;
  next_run_at?: string | null;
  next_runs?: string[];
  last_run_at?: string | null;
  last_job_id?: string;
  missed?: number;
  created_at?: string;
  /** Printed without touching a digit. */
  payload: string;
}

/** What POST and PUT of a schedule take; the payload is exact text. */
export type ScheduleSettings = Omit<
  Schedule,
  "id" | "next_run_at" | "next_runs" | "last_run_at" | "last_job_id" | "missed" | "created_at"
>;

export interface Batch {
  id: string;
  /** open: jobs may join; sealed: it ends with the last of its jobs. */
  status: "open" | "sealed" | "finished";
  total: number;
  open: number;
  completed: number;
  dead: number;
  cancelled: number;
  deleted: number;
  callback_queue?: string;
  callback_job_id?: string;
  created_at: string;
  finished_at?: string;
}

export interface BatchMember {
  job_id: string;
  /** Without queue and state the job is gone. */
  queue?: string;
  state?: JobState;
  /** As the batch counts it; unset while it has not ended. */
  outcome?: "completed" | "dead" | "cancelled" | "deleted";
}

export interface BatchPage {
  batch: Batch;
  members: BatchMember[];
  cursor?: string | undefined;
}

export type ChainStatus = "running" | "completed" | "exited" | "failed" | "cancelled";

interface AnyChain {
  id: string;
  status: ChainStatus;
  /** The furthest step that was made, from 0. */
  current_step: number;
  exit_reason?: string;
  created_at: string;
  finished_at?: string;
}

export interface ChainRow extends AnyChain {
  /** How many there are. */
  steps: number;
}

export interface ChainStep {
  queue: string;
  job_id?: string;
  /** Unset for a job that is not made, or gone. */
  state?: JobState;
}

export interface Chain extends AnyChain {
  steps: ChainStep[];
  /** The step after a dead one runs all the same. */
  continue_on_failure: boolean;
  on_failure?: ChainStep;
  on_exit?: ChainStep;
}

/** Why a job does not run: what stands in its way, the first thing first. */
export interface Why {
  state: JobState;
  reasons: { code: string; message: string; until?: string | null }[];
  /** When nothing stands in its way any more, if time alone decides. */
  eta?: string | null;
}

/** One iteration of an agent job that has ended. */
export interface Iteration extends Usage {
  iteration: number;
  status: "continue" | "done" | "hold";
  hold_reason?: string;
  model?: string;
  provider?: string;
  created_at: string;
  /** Printed without touching a digit. */
  checkpoint?: string | undefined;
  result?: string | undefined;
}

/** Somebody who asked for jobs lately. */
export interface Worker {
  id: string;
  hostname: string;
  /** Of its last fetch. */
  queues: string[];
  /** Fetch or heartbeat. */
  last_heartbeat: string;
  started_at: string;
}

/** What happened in a namespace in one minute. */
export interface Minute {
  /** Its beginning. */
  minute: string;
  enqueued: number;
  completed: number;
  /** Attempts. */
  failed: number;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_creation_tokens: number;
  cache_read_tokens: number;
  cost_usd: number;
  count: number;
}

export interface UsageSummary {
  period: string;
  from: string;
  to: string;
  totals: Usage;
  groups: ({ key: string } & Usage)[];
}

export interface Budget {
  id: string;
  scope: "global" | "queue" | "tag";
  target: string;
  daily_usd?: number;
  per_job_usd?: number;
  on_exceed: "hold" | "reject" | "alert_only";
  spent_usd?: number;
  created_at?: string;
}

export type BudgetSettings = Pick<Budget, "scope" | "target" | "daily_usd" | "per_job_usd" | "on_exceed">;

export interface Policy {
  id: string;
  name: string;
  mode: "any" | "all";
  enabled: boolean;
  queue?: string;
  tag_key?: string;
  tag_value?: string;
  approvers?: string[];
  expires_after?: string;
  on_expire?: "approve" | "reject";
  created_at?: string;
}

export type PolicySettings = Omit<Policy, "id" | "created_at">;

// Jobs that the list of workers is joined with.
const LEASED_READ = 500;

type Answer<Name extends string, Row> = { [name in Name]?: Row[] } & { cursor?: string; has_more?: boolean };

async function list<Name extends string, Row>(
  scope: Scope,
  path: string,
  name: Name,
  cursor: string | undefined,
): Promise<Page<Row>> {
  const query = new URLSearchParams({ limit: "100", ...(cursor ? { cursor } : {}) });
  const answer = await plain<Answer<Name, Row>>(scope, `${path}${path.includes("?") ? "&" : "?"}${query}`);
  return { rows: answer[name] ?? [], cursor: answer.has_more ? answer.cursor : undefined };
}

function scheduleOf(text: string): Schedule {
  const raw = parseLossless(text);
  return { ...(toPlain(raw) as Schedule), payload: printLossless(member(raw, "payload") ?? {}) };
}

function iterationsOf(text: string): { rows: Iteration[]; more: boolean } {
  const raw = parseLossless(text);
  const list = member(raw, "iterations");
  const rows = (Array.isArray(list) ? list : []).map((entry): Iteration => {
    const exact = (name: string) => {
      const value = member(entry, name);
      return value === undefined || value === null ? undefined : printLossless(value);
    };
    return { ...(toPlain(entry) as Iteration), checkpoint: exact("checkpoint"), result: exact("result") };
  });
  return { rows, more: member(raw, "has_more") === true };
}

function scheduleBody({ payload, ...settings }: ScheduleSettings): string {
  return printLossless({ ...settings, payload: parseLossless(payload) }, 0);
}

const remove = (scope: Scope, path: string) => plain<unknown>(scope, path, { method: "DELETE" });

export const workApi = {
  dead: async (
    scope: Scope,
    queue: string | undefined,
    group: string | undefined,
    cursor: string | undefined,
  ): Promise<Page<JobRow>> => {
    const page = await jobsApi.jobs(scope, { queue, state: ["dead"], error_group: group }, cursor);
    return { rows: page.jobs, cursor: page.has_more ? page.cursor : undefined };
  },
  deadGroups: (scope: Scope, queue: string | undefined, limit: number) =>
    plain<ErrorGroups>(
      scope,
      `/dead/groups?${new URLSearchParams({ limit: String(limit), ...(queue ? { queue } : {}) })}`,
    ),

  schedules: (scope: Scope, cursor: string | undefined): Promise<Page<Schedule>> =>
    list(scope, "/schedules", "schedules", cursor),
  schedule: async (scope: Scope, id: string): Promise<Schedule> =>
    scheduleOf(await (await send(scope, `/schedules/${seg(id)}`)).text()),
  createSchedule: async (scope: Scope, settings: ScheduleSettings): Promise<Schedule> => {
    const answer = await send(scope, "/schedules", { method: "POST", body: scheduleBody(settings) });
    return scheduleOf(await answer.text());
  },
  changeSchedule: async (scope: Scope, id: string, settings: ScheduleSettings): Promise<Schedule> => {
    const answer = await send(scope, `/schedules/${seg(id)}`, {
      method: "PUT",
      body: scheduleBody(settings),
    });
    return scheduleOf(await answer.text());
  },
  pauseSchedule: (scope: Scope, id: string, paused: boolean) =>
    post(scope, `/schedules/${seg(id)}/${paused ? "pause" : "resume"}`),
  runSchedule: (scope: Scope, id: string) => post<{ job_id: string }>(scope, `/schedules/${seg(id)}/run`),
  deleteSchedule: (scope: Scope, id: string) => remove(scope, `/schedules/${seg(id)}`),
  /** When an expression would run next. */
  preview: async (scope: Scope, cron: string, timezone: string): Promise<string[]> =>
    (await post<{ next_runs?: string[] }>(scope, "/schedules/preview", { cron, timezone })).next_runs ?? [],

  batches: (scope: Scope, cursor: string | undefined): Promise<Page<Batch>> =>
    list(scope, "/batches", "batches", cursor),
  /** A batch with a page of its members. */
  batch: async (scope: Scope, id: string, cursor: string | undefined): Promise<BatchPage> => {
    const query = new URLSearchParams({ limit: "100", ...(cursor ? { cursor } : {}) });
    const page = await plain<BatchPage & { has_more?: boolean }>(scope, `/batches/${seg(id)}?${query}`);
    return { ...page, cursor: page.has_more ? page.cursor : undefined };
  },
  sealBatch: (scope: Scope, id: string) => post(scope, `/batches/${seg(id)}/seal`),

  chains: (scope: Scope, cursor: string | undefined): Promise<Page<ChainRow>> =>
    list(scope, "/chains", "chains", cursor),
  chain: (scope: Scope, id: string) => plain<Chain>(scope, `/chains/${seg(id)}`),

  why: (scope: Scope, id: string) => plain<Why>(scope, `/jobs/${seg(id)}/why`),
  /** Few at a time: each is read as a whole. */
  held: async (scope: Scope, cursor: string | undefined): Promise<Page<JobRow>> => {
    const page = await jobsApi.jobs(scope, { state: ["held"] }, cursor, 25);
    return { rows: page.jobs, cursor: page.has_more ? page.cursor : undefined };
  },
  hold: (scope: Scope, id: string, reason: string) =>
    post<{ status: string }>(scope, `/jobs/${seg(id)}/hold`, reason ? { reason } : {}),
  decide: (scope: Scope, id: string, verb: "approve" | "reject", comment: string) =>
    post<{ status: string }>(scope, `/jobs/${seg(id)}/${verb}`, comment ? { comment } : {}),

  policies: (scope: Scope) => plain<Policy[]>(scope, "/approval-policies"),
  putPolicy: (scope: Scope, policy: PolicySettings) => post<Policy>(scope, "/approval-policies", policy),
  deletePolicy: (scope: Scope, id: string) => remove(scope, `/approval-policies/${seg(id)}`),

  usage: (scope: Scope, period: string, by: string) =>
    plain<UsageSummary>(scope, `/usage/summary?${new URLSearchParams({ period, group_by: by })}`),
  budgets: (scope: Scope) => plain<Budget[]>(scope, "/budgets"),
  putBudget: (scope: Scope, budget: BudgetSettings) => post<Budget>(scope, "/budgets", budget),
  deleteBudget: (scope: Scope, { id }: Budget) => remove(scope, `/budgets/${seg(id)}`),

  throughput: (scope: Scope) => plain<Minute[]>(scope, "/metrics/throughput"),
  workers: async (scope: Scope): Promise<Worker[]> =>
    ((await plain<(Omit<Worker, "queues"> & { queues: string })[] | null>(scope, "/workers")) ?? []).map(
      (worker) => ({ ...worker, queues: JSON.parse(worker.queues) as string[] }),
    ),
  /** The jobs that workers have now, and whether there are more. */
  leased: async (scope: Scope): Promise<{ jobs: JobRow[]; more: boolean }> => {
    const page = await jobsApi.jobs(scope, { state: ["active", "cancelling"] }, undefined, LEASED_READ);
    return { jobs: page.jobs, more: page.has_more };
  },
  drain: (scope: Scope, queue: string) =>
    post<{ status: string; remaining: number }>(scope, `/queues/${seg(queue)}/drain`),
  /** Removes all jobs that no worker holds. */
  clear: (scope: Scope, queue: string) => post<{ removed: number }>(scope, `/queues/${seg(queue)}/clear`),
  /** Runs all dead jobs again. */
  requeue: (scope: Scope, queue: string) =>
    post<{ requeued: number }>(scope, `/queues/${seg(queue)}/requeue`),
  /** Finished iterations, oldest first. */
  iterations: async (scope: Scope, id: string, after: string | undefined): Promise<Page<Iteration>> => {
    const query = new URLSearchParams({ limit: "100", ...(after ? { after } : {}) });
    const answer = await send(scope, `/jobs/${seg(id)}/iterations?${query}`);
    const { rows, more } = iterationsOf(await answer.text());
    return { rows, cursor: more ? String(rows.at(-1)?.iteration) : undefined };
  },
  /** A new job that goes on from where an iteration ended. */
  replay: (scope: Scope, id: string, from: number) =>
    post<{ job_id: string }>(scope, `/jobs/${seg(id)}/replay`, { from }),
  move: (scope: Scope, id: string, queue: string) => post(scope, `/jobs/${seg(id)}/move`, { queue }),
} as const;
