import { Link } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "~/components/ui/button";
import { CopyButton } from "~/components/ui/copy";
import type { Scope } from "~/data/token";

/** The link back to a list. */
export function Back({ scope, to, children }: { scope: Scope; to: BackTo; children: ReactNode }) {
  return (
    <Link
      to={to}
      params={scope}
      className="-mb-3 inline-flex min-h-6 items-center gap-1.5 self-start text-12 text-ink-3 hover:text-ink"
    >
      <ArrowLeft aria-hidden className="size-3.5" />
      {children}
    </Link>
  );
}

type BackTo =
  | "/$tenant/$namespace/jobs"
  | "/$tenant/$namespace/schedules"
  | "/$tenant/$namespace/batches"
  | "/$tenant/$namespace/chains"
  | "/$tenant/$namespace/keys";

/** An id as a heading, to copy. */
export function Id({ id }: { id: string }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-1.5">
      <span className="font-mono text-16 font-medium wrap-anywhere">{id}</span>
      <CopyButton text={id} label="Copy ID" />
    </span>
  );
}

/** In place of what a job carries, for whoever may not read it. */
export function Unseen({ className = "py-6 text-center" }: { className?: string }) {
  return <p className={`text-13 text-ink-3 ${className}`}>You don't have permission to see this.</p>;
}

/** A job by its id, in a sentence. */
export function JobName({ id }: { id: string }) {
  return <span className="font-mono text-12 wrap-anywhere text-ink">{id}</span>;
}

/** A link to a job by its id. */
export function JobLink({ scope, id, children }: { scope: Scope; id: string; children?: ReactNode }) {
  return (
    <Link
      to="/$tenant/$namespace/jobs/$job"
      params={{ ...scope, job: id }}
      preload={false}
      className="inline-flex min-h-6 items-center font-mono text-12 wrap-anywhere text-accent-text underline-offset-2 hover:underline"
    >
      {children ?? id}
    </Link>
  );
}

export interface MoreProps {
  list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => Promise<unknown> };
}

/** Below a list that has more. */
export function More({ list }: MoreProps) {
  return list.hasNextPage ? (
    <div className="flex justify-center">
      <Button size="sm" busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
        Show more
      </Button>
    </div>
  ) : null;
}
