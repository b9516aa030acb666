import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Stamp } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { type Edge, Graph, type Node } from "~/components/graph/graph";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { Page } from "~/components/ui/page";
import { StateBadge } from "~/components/ui/state-badge";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { Detail } from "~/components/work/detail";
import { Outcomes } from "~/components/work/outcomes";
import { Back, Id, JobLink, More } from "~/components/work/parts";
import { BatchStatus } from "~/components/work/status";
import { type Batch, type BatchMember, pageApi } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { reads } from "~/data/queries";
import { useRefresh } from "~/data/refresh";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { count, plural } from "~/lib/numbers";
import { batchEquivalents, joinBatch } from "~/lib/page-equivalents";

const route = getRouteApi("/$tenant/$namespace/batches/$batch");
const Confirm = lazy(() => import("~/components/confirm"));

/** One batch: its progress, how its jobs ended, and what follows. */
export function BatchPage() {
  const { batch: id, ...scope } = route.useParams();
  const pages = useInfiniteQuery(pageReads.batch(scope, id));
  useCopyAs(batchEquivalents(id));
  useRefresh(pageReads.batch(scope, id).queryKey, (event) => event.job_id !== undefined);

  const frame = {
    title: `Batch ${id}`,
    heading: <Id id={id} />,
    above: (
      <Back scope={scope} to="/$tenant/$namespace/batches">
        Batches
      </Back>
    ),
  };
  return (
    <Detail what="batch" query={{ ...pages, data: pages.data?.pages[0]?.batch }} {...frame}>
      {(batch) => (
        <Page {...frame} actions={batch.status === "open" ? <Seal scope={scope} batch={batch} /> : null}>
          <Loaded scope={scope} batch={batch} />
          <Card title="Jobs" flush>
            <Table
              label="Jobs in this batch"
              columns={members(scope)}
              rows={pages.data?.pages.flatMap((page) => page.members)}
              rowKey={(member) => member.job_id}
              more={pages.hasNextPage}
              empty={<p className="px-4 py-8 text-center text-13 text-ink-3">No job has joined yet.</p>}
            />
          </Card>
          <More list={pages} />
        </Page>
      )}
    </Detail>
  );
}

function Seal({ scope, batch }: { scope: Scope; batch: Batch }) {
  const rights = useRights(scope);
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  async function seal() {
    await pageApi.sealBatch(scope, batch.id);
    toast({ title: "Batch sealed", description: "It finishes when its last job does." });
    await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "batches"] });
  }
  return (
    <>
      <Button
        variant="primary"
        icon={<Stamp aria-hidden />}
        blockedBecause={rights.blocked(Permission.JOB_ENQUEUE)}
        onClick={() => setAsking(true)}
      >
        Seal
      </Button>
      <Suspense>
        {asking ? (
          <Confirm
            onClose={() => setAsking(false)}
            title="Seal this batch?"
            confirmLabel="Seal batch"
            variant="primary"
            onConfirm={seal}
          >
            No job can join it any more. Its callback is enqueued when the last of its{" "}
            {plural(batch.total, "job")} has ended. This can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </>
  );
}

function Loaded({ scope, batch }: { scope: Scope; batch: Batch }) {
  const callback = useQuery({
    ...reads.job(scope, batch.callback_job_id ?? ""),
    enabled: batch.callback_job_id !== undefined,
  });
  return (
    <>
      <div role="status" className="-mt-2 flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <BatchStatus batch={batch} />
        <p className="text-13 text-ink-2">{sentence(batch)}</p>
      </div>
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="flex min-w-0 flex-col gap-5">
          <Card title={`${count(batch.total - batch.open)} of ${plural(batch.total, "job")} finished`}>
            <Outcomes batch={batch} />
          </Card>
          {batch.callback_queue ? (
            <Card title="Callback">
              <Graph scope={scope} label="Batch and callback" {...graphOf(batch, callback.data?.state)} />
            </Card>
          ) : null}
          {batch.status !== "open" ? null : (
            <Card
              title="Add jobs to this batch"
              description="Pass its ID when you enqueue, until the batch is sealed."
            >
              <CodeBlock language="shell" label="Add to batch" code={joinBatch(batch.id)} />
            </Card>
          )}
        </div>
        <Card title="Details">
          <Facts
            items={[
              { label: "Jobs", value: <span className="nums">{count(batch.total)}</span> },
              {
                label: "Accepts jobs",
                value: batch.status !== "open" ? "No" : "Yes, until it is sealed",
              },
              { label: "Callback queue", value: batch.callback_queue ?? "–" },
              ...(batch.callback_job_id
                ? [{ label: "Callback job", value: <JobLink scope={scope} id={batch.callback_job_id} /> }]
                : []),
              { label: "Created", value: <Time at={batch.created_at} format="local" /> },
              ...(batch.finished_at
                ? [{ label: "Finished", value: <Time at={batch.finished_at} format="local" /> }]
                : []),
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function sentence(batch: Batch): string {
  if (batch.status === "open") return "Open for more jobs. It finishes after you seal it.";
  if (batch.status !== "finished") return `${plural(batch.open, "job")} not finished yet.`;
  if (batch.callback_job_id) return "All jobs have finished and the callback is enqueued.";
  return "All jobs have finished.";
}

/** All members as one node: they are many, and alike. */
function graphOf(batch: Batch, callback: Node["state"]): { nodes: Node[]; edges: Edge[] } {
  return {
    nodes: [
      {
        id: "members",
        role: batch.status !== "open" ? "Jobs" : "Jobs so far",
        title: plural(batch.total, "job"),
        note: batch.open > 0 ? `${count(batch.open)} not finished` : "all finished",
        here: true,
      },
      {
        id: "callback",
        role: "Callback",
        title: batch.callback_queue ?? "",
        job: batch.callback_job_id,
        state: callback,
        note: batch.callback_job_id ? "enqueued" : "when all have finished",
      },
    ],
    edges: [{ from: "members", to: "callback", open: !batch.callback_job_id }],
  };
}

function members(scope: Scope): Column<BatchMember>[] {
  return [
    {
      id: "job",
      header: "Job",
      phone: "title",
      cell: (member) =>
        member.state ? (
          <JobLink scope={scope} id={member.job_id} />
        ) : (
          <span className="font-mono text-12 text-ink-3">{member.job_id}</span>
        ),
    },
    {
      id: "queue",
      header: "Queue",
      phoneSkip: (member) => !member.queue,
      cell: (member) => member.queue ?? <span className="text-ink-3">–</span>,
    },
    {
      id: "state",
      header: "State",
      phone: "corner",
      cell: (member) =>
        member.state ? <StateBadge state={member.state} /> : <span className="text-12 text-ink-3">gone</span>,
    },
    {
      id: "outcome",
      header: "Outcome",
      phoneSkip: (member) => !member.outcome,
      cell: (member) => member.outcome ?? <span className="text-ink-3">not finished</span>,
    },
  ];
}
