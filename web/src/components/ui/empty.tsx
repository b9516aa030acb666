import type { ReactNode } from "react";

export interface EmptyStateProps {
  /** A drawing or an icon of about 24 px. */
  icon?: ReactNode;
  title: string;
  /** 1 where this is all there is on the page. */
  level?: 1 | 2;
  /** What appears here, and when. */
  children: ReactNode;
  /** The one thing to do. */
  action?: ReactNode;
  /** The same by code: a CodeBlock. */
  snippet?: ReactNode;
}

/** In place of rows, while there are pages that may have some. */
export function NoneSoFar() {
  return (
    <p className="px-4 py-8 text-center text-13 text-ink-3">None so far. There is more to look through.</p>
  );
}

export function EmptyState({ icon, title, level = 2, children, action, snippet }: EmptyStateProps) {
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <div className="mx-auto flex w-full max-w-2xl animate-rise flex-col items-center px-4 py-14 text-center">
      {icon ? (
        <div className="mb-4 grid size-11 place-items-center rounded-xl border border-line bg-surface text-ink-2 shadow-1 [&_svg]:size-5">
          {icon}
        </div>
      ) : null}
      <Heading className="text-16 font-semibold">{title}</Heading>
      <p className="mt-1 max-w-md text-13 text-ink-2">{children}</p>
      {action ? <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div> : null}
      {snippet ? <div className="mt-6 w-full text-left">{snippet}</div> : null}
    </div>
  );
}
