import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import { Workflow } from "lucide-react";
import { useCopyAs } from "~/components/shell/copy-as";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import type { Column } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { PagedTable } from "~/components/work/paged-table";
import { ChainStatusBadge } from "~/components/work/status";
import type { ChainRow, ChainStatus } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { stepsDone } from "~/lib/chain-graph";
import { plural } from "~/lib/numbers";
import { chainsEquivalents, firstChain } from "~/lib/page-equivalents";

const route = getRouteApi("/$tenant/$namespace/chains");

/** Chains of jobs, newest first. */
export function ChainsPage() {
  const scope = route.useParams();
  const chains = useInfiniteQuery(pageReads.chains(scope));
  useCopyAs(chainsEquivalents());
  useRefresh(pageReads.chains(scope).queryKey, (event) => event.job_id !== undefined);

  const columns: Column<ChainRow>[] = [
    {
      id: "id",
      header: "Chain",
      phone: "title",
      cell: (chain) => (
        <Link
          to="/$tenant/$namespace/chains/$chain"
          params={{ ...scope, chain: chain.id }}
          data-row={chain.id}
          className="inline-flex min-h-6 items-center font-mono text-12 wrap-anywhere underline-offset-2 hover:underline"
        >
          {chain.id}
        </Link>
      ),
    },
    {
      id: "status",
      header: "Status",
      phone: "corner",
      cell: (chain) => <ChainStatusBadge status={chain.status} />,
    },
    { id: "steps", header: "Steps", phone: "block", cell: (chain) => <Steps chain={chain} /> },
    {
      id: "created",
      header: "Created",
      align: "right",
      width: "w-28",
      cell: (chain) => <Time at={chain.created_at} className="text-ink-2" />,
    },
  ];

  return (
    <Page description="Jobs that run in sequence, each with the result of the previous one. Newest first.">
      <PagedTable
        list={chains}
        label="Chains"
        columns={columns}
        rowKey={(chain) => chain.id}
        empty={
          <EmptyState
            icon={<Workflow aria-hidden />}
            title="No chains yet"
            snippet={<CodeBlock language="shell" label="Enqueue a chain" code={firstChain} />}
          >
            Enqueue a job with the steps that follow it. Each step starts when the previous one completes; a
            failure can trigger its own job.
          </EmptyState>
        }
      />
    </Page>
  );
}

// More do not fit into a line; the words beside them count all.
const DOTS = 12;

/** The steps as beads, and in words. */
function Steps({ chain }: { chain: ChainRow }) {
  const done = stepsDone(chain, chain.steps);
  const bead = (index: number) => {
    if (index < done) return "bg-ok-text";
    if (index > chain.current_step) return "border border-ink-3";
    return beads[chain.status];
  };
  return (
    <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <span aria-hidden className="flex items-center">
        {Array.from({ length: Math.min(chain.steps, DOTS) }, (_, index) => (
          <span key={index} className="flex items-center">
            {index > 0 ? <span className="h-px w-3 bg-ink-3" /> : null}
            <span className={clsx("size-2.5 rounded-full", bead(index))} />
          </span>
        ))}
        {chain.steps > DOTS ? <span className="pl-1 text-ink-3">…</span> : null}
      </span>
      <span className="nums text-12 text-ink-2">
        {done} of {plural(chain.steps, "step")} completed
      </span>
    </span>
  );
}

const beads: Record<ChainStatus, string> = {
  running: "bg-info-text",
  completed: "bg-ok-text",
  exited: "bg-violet-text",
  failed: "bg-danger-text",
  cancelled: "bg-ink-3",
};
