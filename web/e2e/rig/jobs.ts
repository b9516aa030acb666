// Calls of the tenant URL, as a worker makes them.

export interface Lease {
  job_id: string;
  lease_token: string;
}

export interface Answer {
  status: number;
  body: unknown;
}

/** Tenant calls one tenant URL with one key, in JSON. */
export class Tenant {
  constructor(
    readonly url: string,
    readonly key: string,
  ) {}

  /** call makes a call, again while there is no leader: nothing was done then, and on a busy machine there may be none for a moment. */
  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    const deadline = Date.now() + 20_000;
    for (;;) {
      const answer = await this.once(method, path, body);
      const undone = answer.status === 503 && (answer.body as { code?: string }).code !== "UNKNOWN_OUTCOME";
      if (!undone || Date.now() > deadline) return answer;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  private async once(method: string, path: string, body?: unknown): Promise<Answer> {
    const res = await fetch(this.url + path, {
      method,
      headers: { "X-API-Key": this.key, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await res.text();
    return { status: res.status, body: text ? JSON.parse(text) : undefined };
  }

  private async ok<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body as T;
  }

  async enqueue(queue: string, payload: unknown, options: object = {}): Promise<string> {
    return (await this.ok<{ job_id: string }>("POST", "/api/v1/enqueue", { queue, payload, ...options })).job_id;
  }

  async fetch(queue: string): Promise<Lease> {
    return await this.ok<Lease>("POST", "/api/v1/fetch", { queues: [queue], worker_id: "journey", wait: 5, lease: 300 });
  }

  async ack(lease: Lease, result: unknown = { ok: true }): Promise<void> {
    await this.ok("POST", `/api/v1/ack/${lease.job_id}`, { lease_token: lease.lease_token, result });
  }

  async fail(lease: Lease, error: string): Promise<void> {
    await this.ok("POST", `/api/v1/fail/${lease.job_id}`, { lease_token: lease.lease_token, error });
  }

  /** run fetches the next job of a queue and acks it. */
  async run(queue: string): Promise<string> {
    const lease = await this.fetch(queue);
    await this.ack(lease);
    return lease.job_id;
  }
}
