import { clsx } from "clsx";
import { TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Badge } from "./badge";

// From here on a bar warns.
const NEAR = 0.8;

interface UsedBarProps {
  /** From 0 to 1. */
  share: number;
  /** "12 of 60" */
  text: ReactNode;
  /** What a word says beside it at the limit, and near it. */
  full?: string;
  near?: string;
}

/** How much of a limit is used: a number, a word near the limit, and a bar. */
export function UsedBar({ share, text, full = "at the limit", near = "nearly at the limit" }: UsedBarProps) {
  const look = share >= 1 ? "danger" : share >= NEAR ? "warn" : undefined;
  return (
    <span className="flex flex-col gap-1.5">
      <span className="nums flex flex-wrap items-center gap-2 text-13 text-ink-2">
        {text}
        {look ? (
          <Badge tone={look} icon={<TriangleAlert aria-hidden />}>
            {look === "danger" ? full : near}
          </Badge>
        ) : null}
      </span>
      <span aria-hidden className="h-1.5 overflow-hidden rounded-full bg-muted-soft">
        <span
          className={clsx(
            "block h-full rounded-full",
            look === "danger" ? "bg-danger-text" : look === "warn" ? "bg-warn-text" : "bg-accent",
          )}
          style={{ width: `${Math.min(100, share * 100)}%` }}
        />
      </span>
    </span>
  );
}
