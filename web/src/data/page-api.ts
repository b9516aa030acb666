import type * as Api from "~/gen/openapi";
import { member, parseLossless, printLossless, toPlain } from "~/lib/json";
import type { Narrow } from "~/lib/narrow";
import { type JobRow, jobsApi, plain, post, seg, send } from "./jobs-api";
import type { Scope } from "./token";

// Everything beyond single jobs and queues. Separate from jobs-api.ts, which every page loads.

/** A page of a list, and where the next one begins. */
export interface Page<Row> {
  rows: Row[];
  cursor?: string | undefined;
}

/** The dead jobs of one queue that died of one cause, however many there are. */
export type ErrorGroup = Api.ErrorGroup;

/** The largest groups, and how many there are of groups and jobs in all. */
export type ErrorGroups = Api.ErrorGroupList;

export type Schedule = Narrow<
  Api.Schedule,
  {
    /** Printed without touching a digit. */
    payload: string;
  }
>;

/** What POST and PUT of a schedule take; the payload is exact text. */
export type ScheduleSettings = Narrow<Api.ScheduleRequest, { payload: string }>;

/** open: jobs may join; sealed: it ends with the last of its jobs. */
export type Batch = Api.Batch;

/** Without queue and state the job is gone; without an outcome it has not ended. */
export type BatchMember = Api.BatchMember;

export interface BatchPage {
  batch: Batch;
  members: BatchMember[];
  cursor?: string | undefined;
}

export type ChainStatus = Api.ChainStatus;

export type ChainRow = Api.ChainRow;

/** Without a state the job is not made, or gone. */
export type ChainStep = Api.ChainJob;

export type Chain = Api.Chain;

/** Why a job isn't running: the reasons, most important first. */
export type Why = Api.Why;

/** One iteration of an agent job that has ended. */
export type Iteration = Narrow<
  Api.Iteration,
  {
    /** Printed without touching a digit. */
    checkpoint?: string | undefined;
    result?: string | undefined;
  }
>;

/** A worker that fetched recently. */
export type Worker = Narrow<Api.Worker, { queues: string[] }>;

/** What happened in a namespace in one minute. */
export type Minute = Api.Minute;

export type Usage = Api.Usage;

export type UsageSummary = Api.UsageSummary;

export type Budget = Api.Budget;

export type BudgetSettings = Narrow<Api.BudgetRequest, Pick<Budget, "on_exceed">>;

export type Policy = Api.ApprovalPolicy;

export type PolicySettings = Api.ApprovalPolicyRequest;

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

export const pageApi = {
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
    ((await plain<Api.Worker[] | null>(scope, "/workers")) ?? []).map((worker) => ({
      ...worker,
      queues: JSON.parse(worker.queues) as string[],
    })),
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
