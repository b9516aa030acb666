import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { clsx } from "clsx";
import { memo, useEffect, useLayoutEffect, useRef, useState } from "react";
import { ProgressBar } from "~/components/ui/progress";
import { StateBadge } from "~/components/ui/state-badge";
import { Time } from "~/components/ui/time";
import type { JobRow } from "~/data/jobs-api";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { useMedia } from "~/lib/media";
import { progressOf } from "~/lib/progress";
import { useShortcuts } from "~/lib/shortcuts";

// Whole jobs are read for their progress: no more than fit on a large screen.
const PROGRESS_MAX = 25;
const DESK_ROW = 44;
const PHONE_ROW = 76;

// One line on a desk; on a phone a card of two.
const grid =
  "grid-cols-[7.25rem_minmax(7rem,1fr)_minmax(8rem,1.05fr)_minmax(8rem,1.5fr)_4rem_6.5rem] gap-x-3 px-4";

interface JobListProps {
  scope: Scope;
  rows: readonly JobRow[];
  hasMore: boolean;
  loadingMore: boolean;
  onMore: () => void;
}

/** Rows of jobs; only visible ones are rendered. */
export function JobList({ scope, rows, hasMore, loadingMore, onMore }: JobListProps) {
  const desk = useMedia("(min-width: 48rem)");
  const list = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const [cursor, setCursor] = useState(-1);
  const rowHeight = desk ? DESK_ROW : PHONE_ROW;

  useLayoutEffect(() => {
    const measure = () => setMargin((list.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
    measure();
    // Content above the list may change its height.
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, []);

  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: margin,
    getItemKey: (index) => rows[index]?.id ?? index,
    // The header of the shell and of the list stay above the rows.
    scrollPaddingStart: 96,
    scrollPaddingEnd: 72,
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new height makes all measures void
  useEffect(() => virtual.measure(), [rowHeight, virtual]);

  const items = virtual.getVirtualItems();
  const active = items
    .map((item) => rows[item.index])
    .filter((row) => row?.state === "active")
    .map((row) => row?.id ?? "")
    .slice(0, PROGRESS_MAX);
  const progress = useQuery(reads.progress(scope, active));
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !loadingMore && last >= rows.length - 30) onMore();
  }, [hasMore, loadingMore, last, rows.length, onMore]);

  function move(to: number) {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setCursor(next);
    virtual.scrollToIndex(next, { align: "auto" });
    // The row may have to be drawn first.
    requestAnimationFrame(() =>
      list.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus({ preventScroll: true }),
    );
  }

  // Enter is left to what has the focus: of the row that these move to, its link.
  useShortcuts({ j: () => move(cursor + 1), k: () => move(cursor - 1) });

  return (
    <div
      role="table"
      aria-label="Jobs"
      aria-rowcount={hasMore ? -1 : rows.length + 1}
      className="rounded-xl border border-line bg-surface shadow-1"
    >
      <div role="rowgroup" className="sticky top-12 z-10 rounded-t-xl bg-surface max-md:sr-only">
        <div
          role="row"
          aria-rowindex={1}
          className={clsx("grid h-9 items-center border-b border-line text-12 font-medium text-ink-3", grid)}
        >
          <span role="columnheader">State</span>
          <span role="columnheader">Queue</span>
          <span role="columnheader">Job</span>
          <span role="columnheader">Details</span>
          <span role="columnheader" className="text-right">
            Attempt
          </span>
          <span role="columnheader" aria-sort="descending" className="text-right">
            Created
          </span>
        </div>
      </div>
      <div ref={list} role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index];
          return row ? (
            <Row
              key={item.key}
              scope={scope}
              row={row}
              index={item.index}
              top={item.start - margin}
              desk={desk}
              current={item.index === cursor}
              progress={row.state === "active" ? progress.data?.[row.id] : undefined}
              onFocus={setCursor}
            />
          ) : null;
        })}
      </div>
    </div>
  );
}

interface RowProps {
  scope: Scope;
  row: JobRow;
  index: number;
  top: number;
  desk: boolean;
  current: boolean;
  /** What the worker reports, as JSON. */
  progress: string | undefined;
  onFocus: (index: number) => void;
}

const Row = memo(function Row({ scope, row, index, top, desk, current, progress, onFocus }: RowProps) {
  const drawn = progressOf(progress);
  const error = row.state === "dead" || row.state === "retrying" ? row.last_error : undefined;
  const link = (
    <Link
      to="/$tenant/$namespace/jobs/$job"
      params={{ ...scope, job: row.id }}
      preload={false}
      onFocus={() => onFocus(index)}
      // The link covers its row, so that all of it can be clicked.
      className="block min-h-6 truncate font-mono text-12 leading-6 text-ink-2 outline-none after:absolute after:inset-0 group-hover:text-ink focus-visible:after:rounded-md focus-visible:after:outline-2 focus-visible:after:-outline-offset-2 focus-visible:after:outline-ring"
    >
      {row.id}
    </Link>
  );
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      data-job={row.id}
      style={{ transform: `translateY(${top}px)`, height: desk ? DESK_ROW : PHONE_ROW }}
      className={clsx(
        "group absolute inset-x-0 top-0 border-b border-line text-13 hover:bg-hover/60",
        current && "bg-hover/60",
        desk
          ? `grid items-center ${grid}`
          : "grid grid-cols-[1fr_auto] content-center gap-x-3 gap-y-0.5 px-4",
      )}
    >
      <span role="cell" className={desk ? undefined : "order-2 justify-self-end"}>
        <StateBadge state={row.state} />
      </span>
      <span role="cell" className={clsx("min-w-0 truncate font-medium", !desk && "order-1")}>
        {row.queue}
      </span>
      <span role="cell" className={clsx("min-w-0", !desk && "order-3")}>
        {link}
      </span>
      {desk ? (
        <span role="cell" className="min-w-0 truncate text-12">
          {error ? (
            <span className="font-mono text-danger-text">{error}</span>
          ) : drawn ? (
            <ProgressBar progress={drawn} />
          ) : (
            <Tags tags={row.tags} />
          )}
        </span>
      ) : null}
      {desk ? (
        <span role="cell" className="nums text-right text-12 text-ink-2">
          {row.attempt} / {row.max_retries}
        </span>
      ) : null}
      <span role="cell" className={clsx("relative text-right text-12 text-ink-2", !desk && "order-4")}>
        <Time at={row.created_at} />
      </span>
    </div>
  );
});

function Tags({ tags }: { tags: Record<string, string> | undefined }) {
  if (!tags) return null;
  return (
    <span className="flex gap-1 overflow-hidden">
      {Object.entries(tags).map(([key, value]) => (
        <span
          key={key}
          className="inline-block max-w-48 shrink-0 truncate rounded-sm bg-muted-soft px-1.5 leading-5 text-ink-2"
        >
          {key}:{value}
        </span>
      ))}
    </span>
  );
}
