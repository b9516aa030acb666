import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import type { ReactNode } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Skeleton } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { describeError } from "~/data/control";
import type { ErrorGroups } from "~/data/page-api";
import type { Scope } from "~/data/token";
import { groupWords } from "~/lib/dead-reasons";
import { count } from "~/lib/numbers";

interface GroupsProps {
  scope: Scope;
  groups: UseQueryResult<ErrorGroups>;
  chosen: string | undefined;
  queue: string | undefined;
  /** Unset when no more can be asked for. */
  onMore: (() => void) | undefined;
}

/** Dead jobs by error, the most frequent first. The service counts them. */
export function Groups({ scope, groups, chosen, queue, onMore }: GroupsProps) {
  const { data, error } = groups;
  const rest = queue ? { queue } : {};
  return (
    <nav
      aria-label="Errors"
      className="flex min-w-0 flex-col gap-px max-lg:max-h-72 max-lg:overflow-y-auto lg:sticky lg:top-16 lg:max-h-[calc(100dvh-6rem)] lg:overflow-y-auto"
    >
      <GroupLink scope={scope} search={rest} on={chosen === undefined} size={data?.total_jobs}>
        <span className="font-medium">
          {data && data.total_groups > 1 ? `All ${count(data.total_groups)} errors` : "All errors"}
        </span>
      </GroupLink>
      {data?.groups.map((group) => (
        <GroupLink
          key={group.id}
          scope={scope}
          search={{ ...rest, group: group.id }}
          on={group.id === chosen}
          size={group.count}
        >
          {/* The end of an address tells errors apart: no space is left empty before it. */}
          <span className="line-clamp-3 font-mono break-all">{groupWords(group)}</span>
          <span className="block truncate text-11 text-ink-3">
            {queue ? null : `${group.queue} · `}
            {group.last_at ? <Time at={group.last_at} /> : null}
          </span>
        </GroupLink>
      ))}
      {!data && error ? (
        <Banner
          tone="danger"
          title="Couldn't count the errors"
          action={
            <Button size="sm" onClick={() => void groups.refetch()}>
              Try again
            </Button>
          }
        >
          {describeError(error)}
        </Banner>
      ) : null}
      {!data && !error ? (
        <span role="status" aria-label="Loading errors" className="flex flex-col gap-3 px-2.5 py-2">
          <Skeleton className="h-3 w-full" />
          <Skeleton className="h-3 w-4/5" />
          <Skeleton className="h-3 w-full" />
        </span>
      ) : null}
      {data?.has_more ? (
        <div className="flex flex-col items-start gap-2 px-2.5 py-2 text-12 text-ink-3">
          <p>
            The {count(data.groups.length)} most frequent of {count(data.total_groups)} errors.
            {onMore ? null : " Choose a queue to see more of them."}
          </p>
          {onMore ? (
            <Button size="sm" busy={groups.isFetching} onClick={onMore}>
              Show more errors
            </Button>
          ) : null}
        </div>
      ) : null}
    </nav>
  );
}

interface GroupLinkProps {
  scope: Scope;
  search: { queue?: string; group?: string };
  on: boolean;
  size: number | undefined;
  children: ReactNode;
}

function GroupLink({ scope, search, on, size, children }: GroupLinkProps) {
  return (
    <Link
      to="/$tenant/$namespace/dead"
      params={scope}
      search={search}
      resetScroll={false}
      // Not the router's: two groups differ in their search only.
      aria-current={on ? "true" : undefined}
      className={clsx(
        "flex min-h-9 shrink-0 items-start justify-between gap-3 rounded-md px-2.5 py-1.5 text-12 focus-visible:-outline-offset-2",
        on ? "bg-hover text-ink" : "text-ink-2 hover:bg-hover hover:text-ink",
      )}
    >
      <span className="min-w-0 leading-5">{children}</span>
      <span className="nums shrink-0 rounded-full bg-muted-soft px-1.5 text-11 leading-5 text-ink-2">
        {size === undefined ? "…" : count(size)}
      </span>
    </Link>
  );
}
