import { useSyncExternalStore } from "react";
import { relativeTime, timeLocal, timeUtc } from "~/lib/time";
import { Tooltip } from "./tooltip";

// One clock for all times on the page; it stands still in a hidden tab.
const listeners = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

function tick() {
  if (document.hidden) return;
  now = Date.now();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (listeners.size === 1) {
    now = Date.now();
    timer = window.setInterval(tick, 5_000);
    document.addEventListener("visibilitychange", tick);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    }
  };
}

/** The current time in milliseconds, updated every five seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

interface TimeProps {
  /** RFC 3339, or milliseconds. */
  at: string | number | Date | null | undefined;
  /** Shown if there is no time. */
  none?: string;
  /** relative: "3 min ago"; local: date and time of this place. The rest is in the tooltip. */
  format?: "relative" | "local";
  className?: string;
}

export function Time({ at, none, format = "relative", className }: TimeProps) {
  const present = useNow();
  if (at === undefined || at === null || at === "")
    return none ? <span className="text-ink-3">{none}</span> : null;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span className={className}>unknown</span>;
  const local = timeLocal(date);
  const relative = relativeTime(date.getTime(), Math.max(present, Date.now() - 5_000));
  const rows = [`Local  ${local}`, `UTC  ${timeUtc(date)}`];
  if (format === "local") rows.push(relative);
  return (
    <Tooltip content={rows.join("\n")}>
      <time dateTime={date.toISOString()} className={className ? `nums ${className}` : "nums"}>
        {format === "relative" ? relative : local}
      </time>
    </Tooltip>
  );
}
