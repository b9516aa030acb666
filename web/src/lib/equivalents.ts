import type { Equivalents } from "~/components/shell/copy-as";
import type { JobState } from "./states";

// A page as curl, CLI and Terraform. The URL and the key are in variables, so
// that nothing secret is ever on a clipboard by accident.

/** Puts text into single quotes for a POSIX shell. */
export function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:=,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

const auth = '-H "X-API-Key: $CORVO_API_KEY"';

export function get(path: string): string {
  return `curl -s "$CORVO_URL/api/v1${path}" ${auth}`;
}

export function post(path: string, body?: unknown): string {
  const data = body === undefined ? "" : ` \\\n  -d ${shellQuote(JSON.stringify(body))}`;
  return `curl -s -X POST "$CORVO_URL/api/v1${path}" ${auth}${data}`;
}

// A page with more queues than this is better imported than copied.
const TERRAFORM_MAX = 25;

export function queuesEquivalents(queues: readonly QueueShape[] = [], namespace = "default"): Equivalents {
  const terraform = queues
    .slice(0, TERRAFORM_MAX)
    .map((queue) => queueTerraform(queue, namespace))
    .join("\n\n");
  return { curl: get("/queues"), cli: "corvo queues", ...(terraform ? { terraform } : {}) };
}

interface QueueShape {
  name: string;
  paused: boolean;
  max_concurrency?: number | undefined;
  rate_limit?: number | undefined;
  rate_window_ms?: number | undefined;
  max_retries?: number | undefined;
  retry_backoff?: string | undefined;
  retry_base_delay_ms?: number | undefined;
  retry_max_delay_ms?: number | undefined;
  retention?: QueueRetention | undefined;
}

/** How long the finished jobs of a queue are kept, and how many. */
export interface QueueRetention {
  completed_ms?: number;
  dead_ms?: number;
  cancelled_ms?: number;
  finished_max?: number;
}

/** A queue as Terraform would have it. */
export function queueTerraform(queue: QueueShape, namespace = "default"): string {
  const label = queue.name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(\d)/, "_$1");
  const lines = [
    `resource "corvo_queue" "${label}" {`,
    `  namespace = ${JSON.stringify(namespace)}`,
    `  name      = ${JSON.stringify(queue.name)}`,
  ];
  if (queue.paused) lines.push("  paused    = true");
  if (queue.max_concurrency) lines.push("", `  max_concurrency = ${queue.max_concurrency}`);
  if (queue.rate_limit && queue.rate_window_ms) {
    lines.push(
      "",
      "  throttle = {",
      `    limit     = ${queue.rate_limit}`,
      `    window_ms = ${queue.rate_window_ms}`,
      "  }",
    );
  }
  const retry: Member[] = [
    ["max_retries", queue.max_retries],
    ["backoff", queue.retry_backoff && JSON.stringify(queue.retry_backoff)],
    ["base_delay_ms", queue.retry_base_delay_ms],
    ["max_delay_ms", queue.retry_max_delay_ms],
  ];
  lines.push(
    ...nested(
      "retry",
      retry.filter(([, value]) => value !== undefined && value !== ""),
    ),
    ...nested("retention", queueRetention(queue.retention)),
  );
  return [...lines, "}"].join("\n");
}

function queueRetention(set: QueueRetention | undefined): Member[] {
  const seconds = (ms: number | undefined) => (ms ? ms / 1000 : undefined);
  return given([
    ["completed_seconds", seconds(set?.completed_ms)],
    ["dead_seconds", seconds(set?.dead_ms)],
    ["cancelled_seconds", seconds(set?.cancelled_ms)],
    ["finished_max", set?.finished_max],
  ]);
}

type Member = [string, string | number | undefined];

function given(members: Member[]): Member[] {
  return members.filter(([, value]) => value !== undefined && value !== "" && value !== 0);
}

/** Members of a nested attribute; nothing if it has none. */
function nested(name: string, members: Member[]): string[] {
  if (members.length === 0) return [];
  const width = Math.max(...members.map(([member]) => member.length));
  return [
    "",
    `  ${name} = {`,
    ...members.map(([member, value]) => `    ${member.padEnd(width)} = ${value}`),
    "  }",
  ];
}

/** What was set of a namespace's retention, in the words of the control API's messages. */
export interface NamespaceRetention {
  completedSeconds?: bigint;
  deadSeconds?: bigint;
  cancelledSeconds?: bigint;
  finishedMax?: bigint;
  eventsSeconds?: bigint;
  eventsBytesMax?: bigint;
  usageSeconds?: bigint;
}

/** A namespace with its retention as Terraform would have it. */
export function namespaceTerraform(name: string, set: NamespaceRetention): string {
  const members = given([
    ["completed_seconds", Number(set.completedSeconds ?? 0)],
    ["dead_seconds", Number(set.deadSeconds ?? 0)],
    ["cancelled_seconds", Number(set.cancelledSeconds ?? 0)],
    ["finished_max", Number(set.finishedMax ?? 0)],
    ["events_seconds", Number(set.eventsSeconds ?? 0)],
    ["events_bytes_max", Number(set.eventsBytesMax ?? 0)],
    ["usage_seconds", Number(set.usageSeconds ?? 0)],
  ]);
  return [
    `resource "corvo_namespace" "${name.replaceAll("-", "_")}" {`,
    `  name = ${JSON.stringify(name)}`,
    ...nested("retention", members),
    "}",
  ].join("\n");
}

export interface QueueSettings {
  max_concurrency?: number;
  throttle?: { limit: number; window_ms: number };
  /** Of jobs whose producer does not say. */
  max_retries?: number;
  retry_backoff?: string;
  retry_base_delay?: string;
  retry_max_delay?: string;
  retention?: QueueRetention;
}

/** Setting the limits of a queue by a call. */
export function queueSettingsCurl(name: string, settings: QueueSettings): string {
  return `curl -s -X PUT "$CORVO_URL/api/v1/queues/${encodeURIComponent(name)}" ${auth} \\\n  -d ${shellQuote(JSON.stringify(settings))}`;
}

export interface ListShape {
  queue?: string | undefined;
  state?: readonly JobState[] | undefined;
  tag?: string | undefined;
  created_after?: string | undefined;
  created_before?: string | undefined;
}

export function jobsEquivalents(filter: ListShape): Equivalents {
  const query = new URLSearchParams();
  if (filter.queue) query.set("queue", filter.queue);
  if (filter.state?.length) query.set("state", filter.state.join(","));
  if (filter.tag) query.set("tag", filter.tag);
  if (filter.created_after) query.set("created_after", filter.created_after);
  if (filter.created_before) query.set("created_before", filter.created_before);
  const text = query.toString();
  const path = `/jobs${text ? `?${text}` : ""}`;
  return { curl: get(path), cli: ["corvo jobs", ...listFlags(filter)].join(" ") };
}

function listFlags(filter: ListShape): string[] {
  const flags: string[] = [];
  const add = (name: string, value: string | undefined) => {
    if (value) flags.push(`--${name} ${shellQuote(value)}`);
  };
  add("queue", filter.queue);
  add("state", filter.state?.join(","));
  add("tag", filter.tag);
  add("after", filter.created_after);
  add("before", filter.created_before);
  return flags;
}

export function jobEquivalents(id: string): Equivalents {
  return {
    curl: [
      get(`/jobs/${id}`),
      "",
      "# retry it",
      post(`/jobs/${id}/retry`),
      "",
      "# cancel it",
      post(`/jobs/${id}/cancel`),
      "",
      "# move it",
      post(`/jobs/${id}/move`, { queue: "elsewhere" }),
    ].join("\n"),
    cli: [
      `corvo inspect ${id}`,
      "",
      "# retry it",
      `corvo retry ${id}`,
      "",
      "# cancel it",
      `corvo cancel ${id}`,
      "",
      "# move it",
      `corvo move ${id} elsewhere`,
    ].join("\n"),
  };
}
