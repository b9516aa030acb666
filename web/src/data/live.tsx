import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useMemo, useRef, useState } from "react";
import { applyToPages, applyToQueues, type LiveEvent } from "./events";
import type { JobsPage, Queue } from "./jobs-api";
import type { EventStream, LiveStatus } from "./stream";
import type { Scope } from "./token";

type Listener = (events: readonly LiveEvent[]) => void;

interface Live {
  status: LiveStatus;
  paused: boolean;
  setPaused: (paused: boolean) => void;
  subscribe: (listener: Listener) => () => void;
}

const Context = createContext<Live | null>(null);

// Counts moved by events are estimates; they are made exact this often at most.
const RECONCILE_MS = 4_000;

/** Opens the tab's stream for a namespace and keeps the cached reads up to it. */
export function LiveProvider({ scope, children }: { scope: Scope; children: ReactNode }) {
  const client = useQueryClient();
  const [status, setStatus] = useState<LiveStatus>("idle");
  const [paused, setPaused] = useState(false);
  const stream = useRef<EventStream>(null);
  const listeners = useRef(new Set<Listener>());
  const { tenant, namespace } = scope;

  useEffect(() => {
    const reconciler = new Reconciler(client, { tenant, namespace });
    let gone = false;
    // The page is drawn before the stream's code is there.
    void import("./stream").then(({ EventStream }) => {
      if (gone) return;
      const opened = new EventStream(
        { tenant, namespace },
        (events, overflow) => {
          patch(client, { tenant, namespace }, events);
          reconciler.touch(events, overflow);
          for (const listener of listeners.current) listener(events);
        },
        (next) => {
          // What happened while the stream was away is not known: ask once.
          if (next === "live") reconciler.all();
          setStatus(next);
        },
      );
      stream.current = opened;
      opened.start();
    });
    return () => {
      gone = true;
      stream.current?.close();
      stream.current = null;
      reconciler.close();
    };
  }, [client, tenant, namespace]);

  const value = useMemo<Live>(
    () => ({
      status,
      paused,
      setPaused: (next) => {
        setPaused(next);
        stream.current?.setPaused(next);
      },
      subscribe: (listener) => {
        listeners.current.add(listener);
        return () => listeners.current.delete(listener);
      },
    }),
    [status, paused],
  );
  return <Context value={value}>{children}</Context>;
}

/** The state of the live stream; null outside of a namespace. */
export function useLive(): Live | null {
  return use(Context);
}

/** Calls back with each delivery of events, at most four times a second. */
export function useLiveEvents(listener: Listener): void {
  const subscribe = use(Context)?.subscribe;
  const latest = useRef(listener);
  useEffect(() => {
    latest.current = listener;
  });
  useEffect(() => subscribe?.((events) => latest.current(events)), [subscribe]);
}

function patch(client: QueryClient, { tenant, namespace }: Scope, events: readonly LiveEvent[]): void {
  client.setQueryData<Queue[]>(
    ["data", tenant, namespace, "queues"],
    (queues) => queues && applyToQueues(queues, events),
  );
  client.setQueriesData<{ pages: JobsPage[]; pageParams: unknown[] }>(
    { queryKey: ["data", tenant, namespace, "jobs"] },
    (data) => (data?.pages ? applyToPages(data, events) : data),
  );
}

/** Collects reads that events made stale, and refetches them at intervals. */
class Reconciler {
  readonly #client: QueryClient;
  readonly #scope: Scope;
  #queues = false;
  #jobs = new Set<string>();
  #timer: number | undefined;
  #last = 0;

  constructor(client: QueryClient, scope: Scope) {
    this.#client = client;
    this.#scope = scope;
  }

  touch(events: readonly LiveEvent[], overflow: boolean): void {
    this.#queues = true;
    for (const event of events) if (event.job_id) this.#jobs.add(event.job_id);
    if (overflow) this.all();
    // A job that is looked at is read again at once: it is one small read.
    this.#looked();
    this.#timer ??= window.setTimeout(
      () => this.#run(),
      Math.max(250, RECONCILE_MS - (Date.now() - this.#last)),
    );
  }

  /** All but the list of jobs: its rows must not move under somebody who reads them, unless it is at its top. */
  all(): void {
    const { tenant, namespace } = this.#scope;
    void this.#client.invalidateQueries({
      queryKey: ["data", tenant, namespace],
      predicate: (query) => query.queryKey[3] !== "jobs" || window.scrollY < 80,
    });
  }

  close(): void {
    window.clearTimeout(this.#timer);
  }

  #looked(): void {
    const { tenant, namespace } = this.#scope;
    for (const id of this.#jobs) {
      for (const kind of ["job", "timeline"]) {
        const key = ["data", tenant, namespace, kind, id];
        if (this.#client.getQueryState(key)) void this.#client.invalidateQueries({ queryKey: key });
      }
    }
    this.#jobs.clear();
  }

  #run(): void {
    this.#timer = undefined;
    this.#last = Date.now();
    if (!this.#queues) return;
    this.#queues = false;
    const { tenant, namespace } = this.#scope;
    void this.#client.invalidateQueries({ queryKey: ["data", tenant, namespace, "queues"] });
  }
}
