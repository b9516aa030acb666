import type { GetSubscriptionResponse, LimitStatus } from "~/gen/corvo/cloud/v1/plan_pb";
import type { GetSpendLimitResponse } from "~/gen/corvo/cloud/v1/usage_pb";
import { money } from "~/lib/money";
import { count } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";

/** What every page tells while a tenant's plan or payment stands in the way of its jobs. */
export interface Notice {
  tone: "warn" | "danger";
  title: string;
  /** What it means for jobs. */
  text: string;
  /** When it changes by itself, with the words before and after that time. */
  until?: { before: string; at: Date; after: string };
  page: "plan" | "billing";
}

type Standing = Pick<GetSubscriptionResponse, "subscription" | "limits">;

/** The most important notice; undefined if there is nothing to tell. */
export function noticeOf(
  { subscription, limits }: Standing,
  spend?: Pick<GetSpendLimitResponse, "limit" | "spent">,
): Notice | undefined {
  return (
    unpaid(subscription, ["suspended"]) ??
    overspent(spend, dateOf(subscription?.periodEnd)) ??
    limits.map((limit) => held(limit)).find((notice) => notice !== undefined) ??
    unpaid(subscription, ["restricted", "past_due"])
  );
}

function unpaid(subscription: Standing["subscription"], states: readonly string[]): Notice | undefined {
  if (!subscription || !states.includes(subscription.state)) return undefined;
  const until = dateOf(subscription.stateUntil);
  switch (subscription.state) {
    case "past_due":
      return {
        tone: "warn",
        title: "An invoice isn't paid",
        text: "Everything works for now.",
        ...when("Pay it by", until, "After that, no namespaces and API keys can be created."),
        page: "billing",
      };
    case "restricted":
      return {
        tone: "danger",
        title: "Namespaces and API keys can't be created because an invoice isn't paid",
        text: "Jobs run as usual.",
        ...when("Pay it by", until, "After that, no job starts."),
        page: "billing",
      };
    case "suspended":
      return {
        tone: "danger",
        title: "No job starts because an invoice isn't paid",
        text: "New jobs are accepted and nothing is deleted. Jobs start again once the invoice is paid.",
        page: "billing",
      };
    default:
      return undefined;
  }
}

function held(limit: LimitStatus): Notice | undefined {
  if (!limit.holds) return undefined;
  if (limit.name === "spend")
    return {
      ...consequence(limit.holds, "the spend limit is reached"),
      ...when("A new month begins on", dateOf(limit.resetsAt), "To go on now, raise or remove the limit."),
      page: "billing",
    };
  // The plan has no such limit any more: jobs are let go within seconds.
  if (limit.max === 0n) return undefined;
  const monthly = limit.name.startsWith("jobs_per_month");
  const what = monthly
    ? `all ${count(limit.max)} jobs of this month are used`
    : `${lower(limit.title)} is used up`;
  return {
    ...consequence(limit.holds, what),
    ...when("The limit resets on", dateOf(limit.resetsAt), "To go on now, choose a bigger plan."),
    page: "plan",
  };
}

/** The limit of spending, for those who may see how much was spent. */
function overspent(
  spend: Pick<GetSpendLimitResponse, "limit" | "spent"> | undefined,
  until: Date | undefined,
): Notice | undefined {
  const { limit, spent = 0n } = spend ?? {};
  if (!limit || limit.amount === 0n || spent < limit.amount || limit.action === "alert") return undefined;
  return {
    ...consequence(
      limit.action === "reject" ? "enqueue" : "dispatch",
      `the spend limit of ${money(limit.amount, limit.currency)} is reached`,
    ),
    ...when("A new month begins on", until, "To go on now, raise or remove the limit."),
    page: "billing",
  };
}

function consequence(holds: string, because: string): Pick<Notice, "tone" | "title" | "text"> {
  return holds === "enqueue"
    ? {
        tone: "danger",
        title: `New jobs are rejected because ${because}`,
        text: "Jobs that were accepted are kept and wait.",
      }
    : {
        tone: "danger",
        title: `No job starts because ${because}`,
        text: "New jobs are accepted and wait. Active jobs finish.",
      };
}

const when = (before: string, at: Date | undefined, after: string): Pick<Notice, "until"> =>
  at ? { until: { before, at, after } } : {};

const lower = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);
