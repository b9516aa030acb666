import { useQueries, useQuery } from "@tanstack/react-query";
import { type Edge, Graph, type Node } from "~/components/graph/graph";
import { Card } from "~/components/ui/card";
import type { Job } from "~/data/jobs-api";
import { pageReads } from "~/data/page-queries";
import { reads } from "~/data/queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";
import { chainGraph } from "~/lib/chain-graph";
import { plural } from "~/lib/numbers";

/** The jobs that led to a job, and those that follow it. */
export default function Relations({ scope, job }: { scope: Scope; job: Job }) {
  return (
    <>
      {job.chain_id ? <InChain scope={scope} job={job} chain={job.chain_id} /> : null}
      {job.depends_on?.length ? <Dependencies scope={scope} job={job} ids={job.depends_on} /> : null}
    </>
  );
}

function InChain({ scope, job, chain }: { scope: Scope; job: Job; chain: string }) {
  const { data } = useQuery(pageReads.chain(scope, chain));
  useRefresh(pageReads.chain(scope, chain).queryKey, (event) => event.job_id !== undefined);
  return data ? (
    <Card title="Chain">
      <Graph scope={scope} label="Chain steps" {...chainGraph(data, job.id)} />
    </Card>
  ) : null;
}

// Each is read; the rest is counted.
const DRAWN = 12;

function Dependencies({ scope, job, ids }: { scope: Scope; job: Job; ids: readonly string[] }) {
  const drawn = ids.slice(0, DRAWN);
  const jobs = useQueries({ queries: drawn.map((id) => reads.job(scope, id)) });
  const nodes: Node[] = drawn.map((id, index) => ({
    id,
    role: "Depends on",
    title: jobs[index]?.data?.queue ?? "…",
    job: jobs[index]?.error ? undefined : id,
    state: jobs[index]?.data?.state,
    note: jobs[index]?.error ? "deleted" : "…",
  }));
  if (ids.length > DRAWN)
    nodes.push({
      id: "more",
      role: "Depends on",
      title: plural(ids.length - DRAWN, "more job"),
      note: "not shown",
    });
  const edges: Edge[] = nodes.map((node) => ({
    from: node.id,
    to: job.id,
    open: node.state !== "completed",
  }));
  nodes.push({ id: job.id, role: "This job", title: job.queue, job: job.id, state: job.state, here: true });
  return (
    <Card
      title="Dependencies"
      description={
        job.waiting_on
          ? `${job.waiting_on} of ${plural(ids.length, "job")} not completed yet.`
          : "All dependencies have completed."
      }
    >
      <Graph scope={scope} label="Dependencies" nodes={nodes} edges={edges} />
    </Card>
  );
}
