import { backoff } from "~/lib/backoff";
import { SseParser } from "~/lib/sse";
import { isDenied, isNotFound } from "./control";
import { decodeEvent, type LiveEvent } from "./events";
import { DataError, send } from "./jobs-api";
import type { Scope } from "./token";

export type LiveStatus =
  /** Not asked for yet. */
  | "idle"
  | "connecting"
  | "live"
  /** Lost; it reconnects automatically. */
  | "reconnecting"
  /** By the user, or because the tab is hidden. */
  | "paused"
  /** Refused; trying again would not help. */
  | "off"
  /** The namespace does not exist, or not for this user: the two look the same. */
  | "absent";

// At most four deliveries a second, however many events arrive.
const FLUSH_MS = 250;
// A stream that is silent for three keepalives is dead, whatever TCP thinks.
const SILENCE_MS = 50_000;
// More than this in one delivery and everything on the page is worth a refetch instead.
const MAX_BUFFER = 5_000;

/** The one event stream of a tab. It resumes where it was interrupted. */
export class EventStream {
  readonly #scope: Scope;
  readonly #onEvents: (events: LiveEvent[], overflow: boolean) => void;
  readonly #onStatus: (status: LiveStatus) => void;
  #status: LiveStatus = "idle";
  #lastId = "";
  #buffer: LiveEvent[] = [];
  #overflow = false;
  #flush: number | undefined;
  #retry: number | undefined;
  #silence: number | undefined;
  #abort: AbortController | undefined;
  #attempt = 0;
  #paused = false;
  #closed = false;

  constructor(
    scope: Scope,
    onEvents: (events: LiveEvent[], overflow: boolean) => void,
    onStatus: (status: LiveStatus) => void,
  ) {
    this.#scope = scope;
    this.#onEvents = onEvents;
    this.#onStatus = onStatus;
  }

  start(): void {
    document.addEventListener("visibilitychange", this.#onVisibility);
    window.addEventListener("online", this.#onOnline);
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#onVisibility);
    window.removeEventListener("online", this.#onOnline);
    this.#stop();
  }

  /** Pausing by hand holds until resumed by hand. */
  setPaused(paused: boolean): void {
    this.#paused = paused;
    this.#onVisibility();
  }

  #onVisibility = (): void => {
    if (this.#status === "absent") return;
    const wanted = !this.#paused && !document.hidden;
    if (!wanted && this.#status !== "paused") {
      this.#stop();
      this.#set("paused");
    } else if (wanted && this.#status === "paused") {
      this.#attempt = 0;
      this.#connect();
    }
  };

  #onOnline = (): void => {
    if (this.#status === "reconnecting") {
      this.#stop();
      this.#connect();
    }
  };

  #set(status: LiveStatus): void {
    if (this.#status === status) return;
    this.#status = status;
    this.#onStatus(status);
  }

  #stop(): void {
    window.clearTimeout(this.#retry);
    window.clearTimeout(this.#silence);
    this.#abort?.abort();
    this.#abort = undefined;
    this.#deliver();
  }

  #connect(): void {
    if (this.#closed) return;
    if (document.hidden || this.#paused) {
      this.#set("paused");
      return;
    }
    this.#set(this.#attempt === 0 ? "connecting" : "reconnecting");
    const abort = new AbortController();
    this.#abort = abort;
    this.#read(abort).catch((error: unknown) => {
      if (abort.signal.aborted && this.#abort !== abort) return;
      this.#lost(error);
    });
  }

  #lost(error: unknown): void {
    if (this.#closed || this.#status === "paused") return;
    window.clearTimeout(this.#silence);
    this.#deliver();
    if (isNotFound(error)) {
      this.#set("absent");
      return;
    }
    // A refusal by role or of a thing that does not exist stays one.
    if (isDenied(error)) {
      this.#set("off");
      return;
    }
    if (error instanceof DataError && (error.status === 403 || error.status === 404)) {
      this.#set("off");
      return;
    }
    this.#attempt += 1;
    this.#set("reconnecting");
    this.#retry = window.setTimeout(() => this.#connect(), backoff(this.#attempt, Math.random()));
  }

  async #read(abort: AbortController): Promise<void> {
    const query = this.#lastId ? `?last_event_id=${encodeURIComponent(this.#lastId)}` : "";
    const response = await send(this.#scope, `/events${query}`, {
      headers: { Accept: "text/event-stream" },
      signal: abort.signal,
    });
    if (!response.body) throw new Error("the browser gave no stream");
    this.#attempt = 0;
    this.#set("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new SseParser();
    for (;;) {
      this.#watchSilence(abort);
      const { done, value } = await reader.read();
      if (done) throw new Error("the stream ended");
      const frames = parser.push(value);
      if (parser.lastId) this.#lastId = parser.lastId;
      for (const frame of frames) {
        const event = decodeEvent(frame.data);
        if (event?.type === "end") throw new Error(`the stream ended: ${String(event.data?.reason)}`);
        if (event) this.#take(event);
      }
    }
  }

  #watchSilence(abort: AbortController): void {
    window.clearTimeout(this.#silence);
    this.#silence = window.setTimeout(() => abort.abort(), SILENCE_MS);
  }

  #take(event: LiveEvent): void {
    if (this.#buffer.length >= MAX_BUFFER) this.#overflow = true;
    else this.#buffer.push(event);
    this.#flush ??= window.setTimeout(() => this.#deliver(), FLUSH_MS);
  }

  #deliver(): void {
    window.clearTimeout(this.#flush);
    this.#flush = undefined;
    if (this.#buffer.length === 0) return;
    const events = this.#buffer;
    const overflow = this.#overflow;
    this.#buffer = [];
    this.#overflow = false;
    this.#onEvents(events, overflow);
  }
}
