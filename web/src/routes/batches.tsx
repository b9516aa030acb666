import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Package } from "lucide-react";
import { useCopyAs } from "~/components/shell/copy-as";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import type { Column } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { Outcomes } from "~/components/work/outcomes";
import { PagedTable } from "~/components/work/paged-table";
import { JobLink } from "~/components/work/parts";
import { BatchStatus } from "~/components/work/status";
import type { Batch } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { count } from "~/lib/numbers";
import { batchesEquivalents, firstBatch } from "~/lib/page-equivalents";

const route = getRouteApi("/$tenant/$namespace/batches");

/** Batches of jobs, newest first. */
export function BatchesPage() {
  const scope = route.useParams();
  const batches = useInfiniteQuery(pageReads.batches(scope));
  useCopyAs(batchesEquivalents());
  useRefresh(pageReads.batches(scope).queryKey, (event) => event.job_id !== undefined);

  const columns: Column<Batch>[] = [
    {
      id: "id",
      header: "Batch",
      phone: "title",
      cell: (batch) => (
        <Link
          to="/$tenant/$namespace/batches/$batch"
          params={{ ...scope, batch: batch.id }}
          data-row={batch.id}
          className="inline-flex min-h-6 items-center font-mono text-12 wrap-anywhere underline-offset-2 hover:underline"
        >
          {batch.id}
        </Link>
      ),
    },
    { id: "status", header: "Status", phone: "corner", cell: (batch) => <BatchStatus batch={batch} /> },
    {
      id: "progress",
      header: "Finished",
      width: "w-56",
      phone: "block",
      cell: (batch) => (
        <span className="flex flex-col gap-1">
          <span className="nums text-12 text-ink-2">
            {count(batch.total - batch.open)} of {count(batch.total)}
            {batch.dead > 0 ? <span className="text-danger-text">, {count(batch.dead)} dead</span> : null}
          </span>
          <Outcomes batch={batch} words={false} />
        </span>
      ),
    },
    {
      id: "callback",
      header: "Callback",
      phoneSkip: (batch) => !batch.callback_queue,
      cell: (batch) =>
        batch.callback_job_id ? (
          <JobLink scope={scope} id={batch.callback_job_id}>
            {batch.callback_queue}
          </JobLink>
        ) : (
          <span className="wrap-anywhere text-ink-2">{batch.callback_queue ?? "–"}</span>
        ),
    },
    {
      id: "created",
      header: "Created",
      align: "right",
      width: "w-28",
      cell: (batch) => <Time at={batch.created_at} className="text-ink-2" />,
    },
  ];

  return (
    <Page description="Groups of jobs with a callback when all have finished. Newest first.">
      <PagedTable
        list={batches}
        label="Batches"
        columns={columns}
        rowKey={(batch) => batch.id}
        empty={
          <EmptyState
            icon={<Package aria-hidden />}
            title="No batches yet"
            snippet={<CodeBlock language="shell" label="Enqueue a batch" code={firstBatch} />}
          >
            Enqueue jobs together and Corvo enqueues a callback job once all of them have finished. It gets
            the counts.
          </EmptyState>
        }
      />
    </Page>
  );
}
