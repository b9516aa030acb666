import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Graph } from "~/components/graph/graph";
import { useCopyAs } from "~/components/shell/copy-as";
import { Card, Facts } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { Time } from "~/components/ui/time";
import { Detail } from "~/components/work/detail";
import { Back, Id, JobLink } from "~/components/work/parts";
import { ChainStatusBadge } from "~/components/work/status";
import type { Chain } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";
import { chainGraph, stepsDone } from "~/lib/chain-graph";
import { plural } from "~/lib/numbers";
import { chainEquivalents } from "~/lib/page-equivalents";

const route = getRouteApi("/$tenant/$namespace/chains/$chain");

/** One chain as a graph of its jobs. */
export function ChainPage() {
  const { chain: id, ...scope } = route.useParams();
  const chain = useQuery(pageReads.chain(scope, id));
  useCopyAs(chainEquivalents(id));
  useRefresh(pageReads.chain(scope, id).queryKey, (event) => event.job_id !== undefined);

  const frame = {
    title: `Chain ${id}`,
    heading: <Id id={id} />,
    above: (
      <Back scope={scope} to="/$tenant/$namespace/chains">
        Chains
      </Back>
    ),
  };
  return (
    <Detail what="chain" query={chain} {...frame}>
      {(loaded) => (
        <Page {...frame}>
          <Loaded scope={scope} chain={loaded} />
        </Page>
      )}
    </Detail>
  );
}

function Loaded({ scope, chain }: { scope: Scope; chain: Chain }) {
  const latest = chain.steps[chain.current_step]?.job_id;
  return (
    <>
      <div role="status" className="-mt-2 flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <ChainStatusBadge status={chain.status} />
        <p className="text-13 wrap-anywhere text-ink-2">{sentence(chain)}</p>
      </div>
      <Card
        title={`${stepsDone(chain, chain.steps.length)} of ${plural(chain.steps.length, "step")} completed`}
      >
        <Graph scope={scope} label="Steps of the chain" {...chainGraph(chain)} />
      </Card>
      <Card title="Details">
        <Facts
          items={[
            { label: "Created", value: <Time at={chain.created_at} format="local" /> },
            ...(latest ? [{ label: "Latest step", value: <JobLink scope={scope} id={latest} /> }] : []),
            ...(chain.finished_at
              ? [{ label: "Finished", value: <Time at={chain.finished_at} format="local" /> }]
              : []),
            ...(chain.exit_reason ? [{ label: "Exit reason", value: chain.exit_reason }] : []),
            { label: "If a step fails", value: onFailure(chain) },
          ]}
        />
      </Card>
    </>
  );
}

function onFailure(chain: Chain): string {
  if (chain.on_failure) return `enqueue a job in ${chain.on_failure.queue}`;
  return chain.continue_on_failure ? "continue with the next step" : "end the chain";
}

function sentence(chain: Chain): string {
  const step = chain.current_step + 1;
  switch (chain.status) {
    case "completed":
      return "All steps completed.";
    case "exited":
      return chain.exit_reason
        ? `Exited at step ${step}: ${chain.exit_reason}`
        : `Exited at step ${step}. The remaining steps were skipped.`;
    case "failed":
      return `Step ${step} is dead. Retry it to continue the chain.`;
    case "cancelled":
      return `Step ${step} was cancelled, so the chain ended.`;
    default:
      return `On step ${step} of ${chain.steps.length}.`;
  }
}
