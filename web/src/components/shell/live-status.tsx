import { clsx } from "clsx";
import { Pause, Play } from "lucide-react";
import { Tooltip } from "~/components/ui/tooltip";
import { useLive } from "~/data/live";
import type { LiveStatus as Status } from "~/data/stream";

const words: Record<Status, string> = {
  idle: "Connecting",
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  paused: "Paused",
  off: "Not live",
  absent: "Not live",
};

const hints: Record<Status, string> = {
  idle: "Connecting to live updates",
  connecting: "Connecting to live updates",
  live: "This page updates live. Click to pause.",
  reconnecting: "Connection lost. Reconnecting",
  paused: "Live updates are paused. Click to resume.",
  off: "Live updates are off. Reload to see changes.",
  absent: "No live updates here",
};

/** Whether the page updates live, and the switch for it. */
export function LiveStatus() {
  const live = useLive();
  if (!live) return null;
  const { status, paused, setPaused } = live;
  const dot =
    status === "live"
      ? "bg-ok-text"
      : status === "paused"
        ? "bg-ink-3"
        : status === "off" || status === "absent"
          ? "bg-danger-text"
          : "bg-warn-text animate-pulse";
  return (
    <Tooltip content={hints[status]} side="bottom">
      <button
        type="button"
        onClick={() => setPaused(!paused)}
        aria-label={`${words[status]}: ${paused ? "resume live updates" : "pause live updates"}`}
        className="group flex h-8 items-center gap-2 rounded-md px-2.5 text-12 font-medium text-ink-2 hover:bg-hover hover:text-ink"
      >
        <span className="relative grid size-3.5 place-items-center">
          <span
            className={clsx("size-2 rounded-full group-hover:opacity-0 group-focus-visible:opacity-0", dot)}
          />
          <span
            aria-hidden
            className="absolute opacity-0 group-hover:opacity-100 group-focus-visible:opacity-100"
          >
            {paused ? <Play className="size-3.5" /> : <Pause className="size-3.5" />}
          </span>
        </span>
        <span role="status" className="max-sm:sr-only">
          {words[status]}
        </span>
      </button>
    </Tooltip>
  );
}
