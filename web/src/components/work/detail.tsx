import type { ReactNode } from "react";
import { NotFound, Problem } from "~/components/problem";
import { Card } from "~/components/ui/card";
import { Page, type PageProps } from "~/components/ui/page";
import { Skeleton, SkeletonRows } from "~/components/ui/skeleton";
import { isNotFound } from "~/data/control";
import { DataError } from "~/data/jobs-api";

interface DetailProps<Thing> extends Pick<PageProps, "title" | "heading" | "above"> {
  /** What kind of thing it is, as in "job". */
  what: string;
  /** Why it may not be there, if there is more to say than usual. */
  gone?: string;
  query: { data: Thing | undefined; error: unknown; refetch: () => Promise<unknown> };
  /** Its page, once it is there. */
  children: (thing: Thing) => ReactNode;
}

/** The page of one thing, and what stands in its place until it is loaded, or if it can't be. */
export function Detail<Thing>({ what, gone, query, children, ...page }: DetailProps<Thing>) {
  const { data, error, refetch } = query;
  if (data !== undefined) return children(data);
  if (isNotFound(error) || (error instanceof DataError && error.status === 404))
    return <NotFound what={what}>{gone}</NotFound>;
  if (error)
    return (
      <Page above={page.above}>
        <Problem error={error} onRetry={() => void refetch()} />
      </Page>
    );
  return (
    <Page {...page} description={<Skeleton className="mt-1.5 h-4 w-72" />}>
      <Card flush>
        <SkeletonRows rows={6} columns={3} label={`Loading ${what}`} />
      </Card>
    </Page>
  );
}
