import type { Equivalents } from "~/components/shell/copy-as";
import { get, post, shellQuote } from "./equivalents";

const seg = encodeURIComponent;

// The pages beyond single jobs and queues, by other means.

export function deadEquivalents(queue: string | undefined, group?: string): Equivalents {
  if (group) {
    const retry = "# retry all of them";
    return {
      curl: [
        get(`/dead?error_group=${group}`),
        "",
        retry,
        post("/jobs/bulk", { action: "retry", filter: { error_group: group } }),
      ].join("\n"),
      cli: [`corvo dead --error-group ${group}`, "", retry, `corvo bulk retry --error-group ${group}`].join(
        "\n",
      ),
    };
  }
  const of = queue ? `?queue=${seg(queue)}` : "";
  const flag = queue ? ` --queue ${shellQuote(queue)}` : "";
  const counted = ["", "# counted by error"];
  const again = queue ? ["", "# retry all of them"] : [];
  return {
    curl: [
      get(`/dead${of}`),
      ...counted,
      get(`/dead/groups${of}`),
      ...again,
      ...(queue ? [post(`/queues/${seg(queue)}/requeue`)] : []),
    ].join("\n"),
    cli: [
      `corvo dead${flag}`,
      ...counted,
      `corvo dead --groups${flag}`,
      ...again,
      ...(queue ? [`corvo requeue ${shellQuote(queue)}`] : []),
    ].join("\n"),
  };
}

export const firstBatch = `curl "$CORVO_URL/api/v1/enqueue/batch" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"jobs": [{"queue": "images.resize", "payload": {"image": 1}},
               {"queue": "images.resize", "payload": {"image": 2}}],
       "batch": {"callback_queue": "albums.ready", "callback_payload": {"album": 7}}}'`;

export const firstChain = `curl "$CORVO_URL/api/v1/enqueue" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queue": "video.extract",
       "chain": {"steps": [{"queue": "video.extract", "payload": {"video": 7}},
                           {"queue": "video.encode"}, {"queue": "video.publish"}],
                 "on_failure": {"queue": "video.alert"}}}'`;

export function joinBatch(id: string): string {
  return `curl "$CORVO_URL/api/v1/enqueue" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queue": "images.resize", "payload": {"image": 3}, "batch_id": "${id}"}'`;
}

export function workersEquivalents(): Equivalents {
  return { curl: get("/workers"), cli: "corvo workers" };
}

export const firstWorker = `corvo work emails -- ./send-email

# or over HTTP: ask for a job, waiting for it
curl "$CORVO_URL/api/v1/fetch" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queues": ["emails"], "worker_id": "mailer-1",
       "hostname": "fra-3", "wait": "30s"}'`;

export function batchesEquivalents(): Equivalents {
  return { curl: get("/batches"), cli: "corvo batch list" };
}

export function batchEquivalents(id: string): Equivalents {
  return {
    curl: [get(`/batches/${id}`), "", "# let no more jobs join", post(`/batches/${id}/seal`)].join("\n"),
    cli: [`corvo batch get ${id}`, "", "# let no more jobs join", `corvo batch seal ${id}`].join("\n"),
  };
}

export function chainsEquivalents(): Equivalents {
  return { curl: get("/chains"), cli: "corvo chain list" };
}

export function chainEquivalents(id: string): Equivalents {
  return { curl: get(`/chains/${id}`), cli: `corvo chain get ${id}` };
}

export const firstSchedule = `curl "$CORVO_URL/api/v1/schedules" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"name": "nightly-report", "cron": "0 2 * * 1-5", "timezone": "Europe/Berlin",
       "queue": "reports", "payload": {"report": "revenue"}}'`;

export function schedulesEquivalents(): Equivalents {
  return { curl: get("/schedules"), cli: "corvo schedule list" };
}

export function scheduleEquivalents(id: string): Equivalents {
  return {
    curl: [
      get(`/schedules/${id}`),
      "",
      "# make its job now",
      post(`/schedules/${id}/run`),
      "",
      "# pause it",
      post(`/schedules/${id}/pause`),
    ].join("\n"),
    cli: [
      `corvo schedule get ${id}`,
      "",
      "# make its job now",
      `corvo schedule run ${id}`,
      "",
      "# pause it",
      `corvo schedule pause ${id}`,
    ].join("\n"),
  };
}

export const holdOne = `curl -X POST "$CORVO_URL/api/v1/jobs/$JOB/hold" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"reason": "Look at the amount first"}'`;

export const firstPolicy = `curl "$CORVO_URL/api/v1/approval-policies" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"name": "refunds", "mode": "all", "enabled": true, "queue": "refunds", "expires_after": "24h"}'`;

export function approvalsEquivalents(): Equivalents {
  return {
    curl: [
      get("/jobs?state=held"),
      "",
      "# decide",
      post("/jobs/$JOB/approve", { comment: "looked at it" }),
      post("/jobs/$JOB/reject", { comment: "not this one" }),
    ].join("\n"),
    cli: ["corvo held", "", "# decide", "corvo approve $JOB", "corvo reject $JOB"].join("\n"),
  };
}

export const reportUsage = `curl -X POST "$CORVO_URL/api/v1/ack/$JOB" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"result": {}, "usage": {"provider": "anthropic", "model": "claude", "input_tokens": 1200,
       "output_tokens": 310, "cost_usd": 0.0123}}'`;

export const firstBudget = `curl "$CORVO_URL/api/v1/budgets" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"scope": "queue", "target": "summarize", "daily_usd": 20, "on_exceed": "hold"}'`;

export function usageEquivalents(period: string, by: string): Equivalents {
  return {
    curl: [get(`/usage/summary?period=${period}&group_by=${by}`), get("/budgets")].join("\n"),
    cli: [`corvo usage --period ${period} --group-by ${by}`, "corvo budget list"].join("\n"),
  };
}
