import { clsx } from "clsx";
import type { ReactNode } from "react";

interface CardProps {
  title?: ReactNode;
  description?: ReactNode;
  /** Controls at the right of the title. */
  action?: ReactNode;
  footer?: ReactNode;
  children?: ReactNode;
  /** Without inner padding, for tables. */
  flush?: boolean;
  className?: string;
}

export function Card({ title, description, action, footer, children, flush, className }: CardProps) {
  return (
    <section
      className={clsx("min-w-0 overflow-hidden rounded-xl border border-line bg-surface shadow-1", className)}
    >
      {title ? (
        <div
          className={clsx(
            "flex flex-wrap items-start justify-between gap-3 px-4 py-3",
            (children || footer) && "border-b border-line",
          )}
        >
          <div className="min-w-0 flex-1 basis-52">
            <h2 className="text-14 font-semibold">{title}</h2>
            {description ? <p className="mt-0.5 text-13 text-ink-2">{description}</p> : null}
          </div>
          {action}
        </div>
      ) : null}
      {children ? <div className={flush ? undefined : "p-4"}>{children}</div> : null}
      {footer ? (
        <div className="border-t border-line bg-sunken px-4 py-2.5 text-12 text-ink-3">{footer}</div>
      ) : null}
    </section>
  );
}

/** Names and values below each other: the facts about one thing. */
export function Facts({
  items,
  className,
}: {
  items: readonly { label: string; value: ReactNode }[];
  className?: string;
}) {
  return (
    <dl className={clsx("grid gap-x-6 gap-y-2.5 text-13", className)}>
      {items.map((item) => (
        <div
          key={item.label}
          className="grid min-w-0 items-baseline gap-x-3 sm:grid-cols-[8rem_minmax(0,1fr)]"
        >
          <dt className="text-ink-3">{item.label}</dt>
          <dd className="min-w-0 wrap-anywhere">{item.value}</dd>
        </div>
      ))}
    </dl>
  );
}
