import { BadSearch, choice, oneOf, searchOf, text } from "./search";
import { isJobState, type JobState, jobStates } from "./states";

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

function time(raw: Record<string, unknown>, name: string): string | undefined {
  const value = text(raw, name);
  if (value !== undefined && Number.isNaN(Date.parse(value)))
    throw new BadSearch(name, value, "a time such as 2026-11-22T14:43:15Z");
  return value;
}

function states(raw: Record<string, unknown>): JobState[] | undefined {
  const value = raw.state;
  const words = Array.isArray(value) ? value : (text(raw, "state")?.split(",") ?? []);
  for (const word of words)
    if (typeof word !== "string" || !isJobState(word)) throw new BadSearch("state", word, oneOf(jobStates));
  return words.length > 0 ? [...new Set(words as JobState[])] : undefined;
}

function tag(raw: Record<string, unknown>): string | undefined {
  const value = text(raw, "tag");
  if (value !== undefined && !/^[^:]+:.+$/.test(value))
    throw new BadSearch("tag", value, "key:value, for example customer:acme");
  return value;
}

/** Takes the filters that a URL names; one that makes no sense is refused, or other jobs would show than were asked for. */
export const parseJobSearch = searchOf((raw): JobSearch => {
  const search: JobSearch = {
    queue: text(raw, "queue"),
    state: states(raw),
    tag: tag(raw),
    within: choice(raw, "within", withins),
    after: time(raw, "after"),
    before: time(raw, "before"),
  };
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as JobSearch;
});

/** The lower bound of "within", rounded to a minute so that equal looks share a cache entry. */
export function withinBound(within: Within, now: number): string {
  return new Date(Math.floor((now - lengths[within]) / 60_000) * 60_000).toISOString();
}

/** Whether anything is filtered at all. */
export function isFiltered(search: JobSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}
