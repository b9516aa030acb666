import { clsx } from "clsx";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { count } from "~/lib/numbers";
import { Button, IconButton } from "./button";
import { NoneSoFar } from "./empty";
import { SkeletonRows } from "./skeleton";

export interface Column<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** What to sort by; without it the column cannot be sorted. */
  sort?: (row: Row) => string | number;
  align?: "left" | "right";
  /** Width at desk width, as a Tailwind class. */
  width?: string;
  /** At phone width each row is a card: title is its first line, block has no label, hide leaves the column out. */
  phone?: "title" | "corner" | "line" | "block" | "hide";
  hideHeader?: boolean;
  /** Leaves the line out of this row's card, when it says nothing. */
  phoneSkip?: (row: Row) => boolean;
}

/** A button of a row. */
export interface RowAction {
  label: string;
  icon: ReactNode;
  onClick: () => void;
  shortcut?: string;
  danger?: boolean;
  busy?: boolean;
  /** Why none of the column's buttons can be used. */
  blockedBecause?: string | undefined;
}

/** The last column: what can be done to a row. */
export function actionsColumn<Row>(
  { blockedBecause, ...look }: Pick<Column<Row>, "width" | "phone"> & Pick<RowAction, "blockedBecause">,
  actions: (row: Row) => RowAction[],
): Column<Row> {
  return {
    ...look,
    id: "actions",
    header: "Actions",
    hideHeader: true,
    align: "right",
    cell: (row) => (
      <span className="inline-flex gap-1">
        {actions(row).map(({ icon, danger, ...button }, index) => (
          <IconButton
            // Not the label: a button that turns into its opposite keeps the focus.
            key={index}
            size="sm"
            variant={danger ? "danger-ghost" : "ghost"}
            blockedBecause={blockedBecause}
            {...button}
          >
            {icon}
          </IconButton>
        ))}
      </span>
    ),
  };
}

export interface TableProps<Row> {
  /** What the table holds; spoken. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[] | undefined;
  rowKey: (row: Row) => string;
  /** Shown when there are no rows. */
  empty?: ReactNode;
  initialSort?: { column: string; descending: boolean };
  /** Marks a row that changed or is looked at. */
  rowClass?: (row: Row) => string | undefined;
  skeletonRows?: number;
  /** True for rows that come page by page: all of them show. */
  paged?: boolean;
  /** True while there are pages that were not asked for: that there is no row yet says nothing. */
  more?: boolean;
}

// More rows than this at once make a page slow; the rest is a click, a filter or another order away.
const SHOWN_AT_ONCE = 100;

/** A real table; at phone width the same rows as cards. For thousands of rows see the jobs list. */
export function Table<Row>({
  label,
  columns,
  rows,
  rowKey,
  empty,
  initialSort,
  rowClass,
  skeletonRows = 6,
  paged = false,
  more = false,
}: TableProps<Row>) {
  const [sort, setSort] = useState(initialSort);
  const [atOnce, setAtOnce] = useState(SHOWN_AT_ONCE);
  const limit = paged ? Number.POSITIVE_INFINITY : atOnce;
  const sorted = useMemo(() => {
    const by = columns.find((column) => column.id === sort?.column)?.sort;
    if (!rows || !by) return rows;
    const direction = sort?.descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const left = by(a);
      const right = by(b);
      if (left === right) return 0;
      if (typeof left === "string" && typeof right === "string")
        return direction * left.localeCompare(right, undefined, { numeric: true });
      return direction * (left < right ? -1 : 1);
    });
  }, [rows, columns, sort]);

  if (!sorted)
    return (
      <SkeletonRows rows={skeletonRows} columns={Math.min(columns.length, 5)} label={`Loading ${label}`} />
    );
  if (sorted.length === 0 && more) return <NoneSoFar />;
  if (sorted.length === 0 && empty) return empty;

  function toggle(column: Column<Row>) {
    setSort((was) =>
      was?.column === column.id
        ? { column: column.id, descending: !was.descending }
        : { column: column.id, descending: false },
    );
  }

  const table = (
    <table
      aria-label={label}
      aria-rowcount={sorted.length > limit ? sorted.length + 1 : undefined}
      className="block w-full text-13 sm:table"
    >
      <thead className="max-sm:sr-only">
        <tr>
          {columns.map((column) => {
            const active = sort?.column === column.id;
            return (
              <th
                key={column.id}
                scope="col"
                aria-sort={
                  column.sort
                    ? active
                      ? sort?.descending
                        ? "descending"
                        : "ascending"
                      : "none"
                    : undefined
                }
                className={clsx(
                  "h-9 border-b border-line px-3 text-12 font-medium whitespace-nowrap text-ink-3 first:pl-4 last:pr-4",
                  column.align === "right" ? "text-right" : "text-left",
                  column.width,
                )}
              >
                {column.sort ? (
                  <button
                    type="button"
                    onClick={() => toggle(column)}
                    className={clsx(
                      "relative -mx-1 inline-flex h-6 items-center rounded-sm px-1 hover:text-ink",
                      active && "text-ink",
                    )}
                  >
                    {column.header}
                    {/* Beside the word, in the space between columns: it takes no width. */}
                    {active ? (
                      <span
                        className={clsx(
                          "absolute [&_svg]:size-3",
                          column.align === "right" ? "right-full" : "left-full",
                        )}
                      >
                        {sort?.descending ? <ArrowDown aria-hidden /> : <ArrowUp aria-hidden />}
                      </span>
                    ) : null}
                  </button>
                ) : column.hideHeader ? (
                  <span className="sr-only">{column.header}</span>
                ) : (
                  column.header
                )}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody className="block divide-y divide-line sm:table-row-group">
        {sorted.slice(0, limit).map((row) => (
          <tr
            key={rowKey(row)}
            className={clsx(
              "relative grid grid-cols-[1fr_auto] gap-x-3 gap-y-1 px-4 py-3 hover:bg-hover/60 sm:table-row sm:p-0",
              rowClass?.(row),
            )}
          >
            {columns.map((column) => {
              const phone = column.phone ?? "line";
              return (
                <td
                  key={column.id}
                  className={clsx(
                    "min-w-0 sm:h-11 sm:px-3 sm:py-1.5 sm:align-middle sm:first:pl-4 sm:last:pr-4",
                    column.align === "right" && "sm:text-right",
                    (phone === "hide" || column.phoneSkip?.(row)) && "max-sm:hidden!",
                    phone === "title" && "max-sm:-order-2",
                    phone === "corner" && "max-sm:-order-1 max-sm:justify-self-end",
                    phone === "block" && "max-sm:col-span-2",
                    phone === "line" && "max-sm:col-span-2 max-sm:flex max-sm:items-center max-sm:gap-4",
                    phone === "line" && (column.hideHeader ? "max-sm:justify-end" : "max-sm:justify-between"),
                  )}
                >
                  {phone === "line" && !column.hideHeader ? (
                    <span className="text-12 text-ink-3 sm:hidden">{column.header}</span>
                  ) : null}
                  {phone === "line" ? (
                    <span className="min-w-0 max-sm:text-right">{column.cell(row)}</span>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
  if (sorted.length <= limit) return table;
  return (
    <>
      {table}
      <div className="sticky left-0 flex items-center justify-center gap-3 border-t border-line px-4 py-2.5 text-12 text-ink-3">
        <span className="nums">
          {count(limit)} of {count(sorted.length)}
        </span>
        <Button size="sm" onClick={() => setAtOnce(limit + SHOWN_AT_ONCE)}>
          Show {count(Math.min(SHOWN_AT_ONCE, sorted.length - limit))} more
        </Button>
      </div>
    </>
  );
}
