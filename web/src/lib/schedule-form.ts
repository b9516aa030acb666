import type { Schedule, ScheduleSettings } from "~/data/page-api";
import { jsonProblem } from "./json";
import { parseTags } from "./tags";
import { shortDuration } from "./wire-duration";

/** A schedule as it stands in its form: all text. */
export interface ScheduleForm {
  name: string;
  cron: string;
  timezone: string;
  queue: string;
  payload: string;
  overlap: Schedule["overlap"];
  catch_up: Schedule["catch_up"];
  jitter: string;
  priority: Schedule["priority"];
  max_retries: string;
  expire_after: string;
  tags: string;
}

export function formOf(schedule: Schedule | undefined, zone: string): ScheduleForm {
  return {
    name: schedule?.name ?? "",
    cron: schedule?.cron ?? "",
    timezone: schedule?.timezone ?? zone,
    queue: schedule?.queue ?? "",
    payload: schedule?.payload ?? "{}",
    overlap: schedule?.overlap ?? "allow",
    catch_up: schedule?.catch_up ?? "once",
    jitter: schedule?.jitter && schedule.jitter !== "0s" ? shortDuration(schedule.jitter) : "",
    priority: schedule?.priority ?? "normal",
    max_retries: schedule?.max_retries ? String(schedule.max_retries) : "",
    expire_after: shortDuration(schedule?.expire_after ?? ""),
    tags: Object.entries(schedule?.tags ?? {})
      .map(([key, value]) => `${key}:${value}`)
      .join(", "),
  };
}

export type Problems = Partial<Record<keyof ScheduleForm, string>>;

/** What the form itself knows to be wrong; the service has the last word. */
export function problemsOf(form: ScheduleForm): Problems {
  const problems: Problems = {};
  if (!form.name.trim()) problems.name = "Enter a name.";
  if (!form.cron.trim()) problems.cron = "Enter a cron expression.";
  if (!form.queue.trim()) problems.queue = "Enter a queue.";
  if (jsonProblem(form.payload)) problems.payload = "Enter valid JSON.";
  if (form.max_retries.trim() && !/^[1-9]\d*$/.test(form.max_retries.trim()))
    problems.max_retries = "Enter a whole number above 0, or leave it empty.";
  if (parseTags(form.tags) === null) problems.tags = "Use key:value, separated by commas.";
  return problems;
}

/** What the service is told. What a change leaves out of its form stays as it was. */
export function settingsOf(form: ScheduleForm, was: Schedule | undefined): ScheduleSettings {
  const kept = was ? settings(was) : {};
  const text = (name: "jitter" | "expire_after") => (form[name].trim() ? { [name]: form[name].trim() } : {});
  const tags = parseTags(form.tags) ?? {};
  const { jitter: _jitter, expire_after: _expire, max_retries: _retries, tags: _tags, ...rest } = kept;
  return {
    ...rest,
    name: form.name.trim(),
    cron: form.cron.trim(),
    timezone: form.timezone.trim(),
    queue: form.queue.trim(),
    payload: form.payload,
    paused: was?.paused ?? false,
    overlap: form.overlap,
    catch_up: form.catch_up,
    priority: form.priority,
    ...text("jitter"),
    ...text("expire_after"),
    ...(form.max_retries.trim() ? { max_retries: Number(form.max_retries) } : {}),
    ...(Object.keys(tags).length > 0 ? { tags } : {}),
  };
}

// What the service tells about a schedule and nobody sets.
const told = [
  "id",
  "next_run_at",
  "next_runs",
  "last_run_at",
  "last_job_id",
  "missed",
  "created_at",
  "updated_at",
  "redacted",
];

function settings(schedule: Schedule): Partial<ScheduleSettings> {
  return Object.fromEntries(Object.entries(schedule).filter(([name]) => !told.includes(name)));
}
