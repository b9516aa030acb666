import { isJobState, type JobState } from "./states";

/** The filters of the jobs page, as they stand in its URL. */
export interface JobSearch {
  queue?: string | undefined;
  state?: JobState[] | undefined;
  /** key:value */
  tag?: string | undefined;
  /** Created within: "15m", "1h", "24h", "7d". */
  within?: Within | undefined;
  after?: string | undefined;
  before?: string | undefined;
}

export const withins = ["15m", "1h", "24h", "7d"] as const;
export type Within = (typeof withins)[number];

const lengths: Record<Within, number> = {
  "15m": 900_000,
  "1h": 3_600_000,
  "24h": 86_400_000,
  "7d": 604_800_000,
};

function text(value: unknown): string | undefined {
  const word = typeof value === "string" ? value.trim() : typeof value === "number" ? String(value) : "";
  return word === "" ? undefined : word;
}

function time(value: unknown): string | undefined {
  const word = text(value);
  return word && !Number.isNaN(Date.parse(word)) ? word : undefined;
}

/** Takes what a URL says and keeps what makes sense; a bad filter is dropped, not fatal. */
export function parseJobSearch(search: Record<string, unknown>): JobSearch {
  const states = (Array.isArray(search.state) ? search.state : (text(search.state)?.split(",") ?? [])).filter(
    (state): state is JobState => typeof state === "string" && isJobState(state),
  );
  const within = text(search.within);
  const result: JobSearch = {
    queue: text(search.queue),
    state: states.length > 0 ? [...new Set(states)] : undefined,
    tag: text(search.tag)?.includes(":") ? text(search.tag) : undefined,
    within: withins.find((known) => known === within),
    after: time(search.after),
    before: time(search.before),
  };
  return Object.fromEntries(Object.entries(result).filter(([, value]) => value !== undefined)) as JobSearch;
}

/** The lower bound of "within", rounded to a minute so that equal looks share a cache entry. */
export function withinBound(within: Within, now: number): string {
  return new Date(Math.floor((now - lengths[within]) / 60_000) * 60_000).toISOString();
}

/** Whether anything is filtered at all. */
export function isFiltered(search: JobSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}
