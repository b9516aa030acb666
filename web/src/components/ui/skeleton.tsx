import { clsx } from "clsx";

/** A grey shape of the size of what will come; give it that size. */
export function Skeleton({ className }: { className?: string }) {
  return <span aria-hidden className={clsx("block animate-pulse rounded-sm bg-muted-soft", className)} />;
}

/** Rows of the height of a table's rows. */
export function SkeletonRows({
  rows = 6,
  columns = 4,
  label = "Loading",
}: {
  rows?: number;
  columns?: number;
  label?: string;
}) {
  return (
    <div role="status" aria-label={label} className="divide-y divide-line">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="flex h-11 items-center gap-6 px-4">
          {Array.from({ length: columns }, (_, column) => (
            <Skeleton
              key={column}
              className={clsx("h-3", column === 0 ? "w-40" : column % 2 ? "w-20" : "w-28 max-sm:hidden")}
            />
          ))}
        </div>
      ))}
    </div>
  );
}
