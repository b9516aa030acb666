import type { Tone } from "~/components/ui/badge";
import type { DirectorySync, ScimToken } from "~/gen/corvo/cloud/v1/directory_pb";
import { dateOf } from "~/lib/proto-time";

/** A connection has two at most, so that one can be replaced. */
export const TOKENS_MAX = 2;

export function living(tokens: readonly ScimToken[], now = Date.now()): ScimToken[] {
  return tokens.filter(({ expiresAt }) => (dateOf(expiresAt)?.getTime() ?? 0) > now);
}

interface Look {
  word: string;
  tone: Tone;
  /** What it means, and what to do. */
  about: string;
}

export type State = "off" | "waiting" | "on" | "refused" | "stopped";

export const looks: Record<State, Look> = {
  off: {
    word: "off",
    tone: "neutral",
    about: "People come in when they first sign in, and stay until you remove them.",
  },
  waiting: {
    word: "waiting for its first call",
    tone: "info",
    about: "Your directory hasn't called yet. Enter base URL and token there, then test the connection.",
  },
  on: { word: "on", tone: "ok", about: "People and groups of your directory are kept in step." },
  refused: {
    word: "last call refused",
    tone: "warn",
    about: "Something that your directory sent was refused. It sends most of it again by itself.",
  },
  stopped: {
    word: "stopped",
    tone: "danger",
    about: "No token works, so changes in your directory don't arrive. Create a token and enter it there.",
  },
};

/** How the directory sync of a connection goes. */
export function stateOf(sync: DirectorySync, tokens: readonly ScimToken[]): State {
  const called = dateOf(sync.lastCallAt)?.getTime();
  if (living(tokens).length === 0) return sync.users + sync.groups > 0 ? "stopped" : "off";
  if (called === undefined) return "waiting";
  // Times of calls are exact to within a minute, those of refusals to within seconds.
  return (dateOf(sync.lastErrorAt)?.getTime() ?? 0) >= called ? "refused" : "on";
}
