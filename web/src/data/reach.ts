import { ConnectError } from "@connectrpc/connect";

// Distinguishes "no answer" from every other failure. Browsers throw
// the same TypeError for both.

/** No answer at all: the network or the service is down. */
export class Unreachable extends Error {
  constructor(cause?: unknown) {
    super("Couldn't reach Corvo. Check your connection and try again.", { cause });
    this.name = "Unreachable";
  }
}

/** fetch, with an error of its own for no answer. */
export const reach: typeof fetch = async (input, init) => {
  try {
    return await fetch(input, init);
  } catch (error) {
    if (init?.signal?.aborted) throw error;
    throw new Unreachable(error);
  }
};

/** A chunk of the console that did not load: the service is down, or a deploy has replaced it. */
export class ChunkLost extends Unreachable {}

/** Loads a chunk of the console; its error is ours, because the router reloads on the browser's. */
export async function part<M>(load: () => Promise<M>): Promise<M> {
  try {
    return await load();
  } catch (error) {
    throw isChunkError(error) ? new ChunkLost(error) : error;
  }
}

// The words of Chromium, Firefox and Safari, and of Vite for a style sheet.
const chunkErrors = /dynamically imported module|importing a module script failed|unable to preload css/i;

function isChunkError(error: unknown): boolean {
  return error instanceof Error && chunkErrors.test(error.message);
}

export function isChunkLost(error: unknown): boolean {
  return error instanceof ChunkLost || isChunkError(error);
}

export function isUnreachable(error: unknown): boolean {
  if (error instanceof ConnectError) return isUnreachable(error.cause);
  return error instanceof Unreachable || isChunkError(error);
}

/** Whether the service serves the console again. */
export async function answers(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "HEAD", cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

const RELOADED = "corvo.reloaded";
// A chunk that is missing after this long is missing because of another deploy.
const RELOAD_AGAIN_MS = 60_000;

/** Reloads the page for the files of a new deploy, but never in a loop. Reports whether it did. */
export function reloadOnce(now = Date.now()): boolean {
  try {
    if (now - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_AGAIN_MS) return false;
    sessionStorage.setItem(RELOADED, String(now));
  } catch {
    return false;
  }
  window.location.reload();
  return true;
}
