import { Badge, type Tone } from "~/components/ui/badge";
import type { Option } from "~/components/ui/option";
import { money } from "~/lib/money";
import { bytes, compact } from "~/lib/numbers";

const tones: Record<string, Tone> = {
  active: "ok",
  past_due: "warn",
  restricted: "danger",
  suspended: "danger",
};

const stateWord = (state: string) => state.replaceAll("_", " ");

/** The state of a tenant's subscription. */
export function State({ state }: { state: string }) {
  return <Badge tone={tones[state] ?? "neutral"}>{stateWord(state)}</Badge>;
}

export const states: readonly Option[] = [
  { value: "", label: "All states" },
  ...Object.keys(tones).map((value) => ({ value, label: stateWord(value) })),
];

export const sorts: readonly Option[] = [
  { value: "revenue", label: "Revenue this month" },
  { value: "last_month", label: "Revenue last month" },
  { value: "jobs_day", label: "Jobs in 24 hours" },
  { value: "jobs_hour", label: "Jobs in the last hour" },
  { value: "open_jobs", label: "Open jobs" },
  { value: "stored_bytes", label: "Stored bytes" },
  { value: "name", label: "Name" },
  { value: "created", label: "Oldest" },
];

export interface Figure {
  id: string;
  header: string;
  of: (figures: Figures) => string;
}

/** What is shown of TenantFigures. */
interface Figures {
  currency: string;
  revenue: bigint;
  revenueLastMonth: bigint;
  jobsDay: bigint;
  jobsHour: bigint;
  openJobs: bigint;
  storedBytes: bigint;
}

export const figures: readonly Figure[] = [
  { id: "revenue", header: "This month", of: (f) => money(f.revenue, f.currency) },
  { id: "last_month", header: "Last month", of: (f) => money(f.revenueLastMonth, f.currency) },
  { id: "jobs_day", header: "Jobs, 24 h", of: (f) => compact(f.jobsDay) },
  { id: "jobs_hour", header: "Last hour", of: (f) => compact(f.jobsHour) },
  { id: "open_jobs", header: "Open jobs", of: (f) => compact(f.openJobs) },
  { id: "stored_bytes", header: "Stored", of: (f) => bytes(f.storedBytes) },
];
