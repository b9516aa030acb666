import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useRouteContext } from "@tanstack/react-router";
import { clsx } from "clsx";
import { lazy, Suspense, useState } from "react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { operatorReads } from "~/data/operator";
import { viewing } from "~/features/operator/command";
import { planLines } from "~/features/operator/plan-fields";
import { Refused } from "~/features/operator/refused";
import type { ListPlanVersionsResponse, PlanVersion } from "~/gen/corvo/cloud/v1/operator_pb";
import { plural } from "~/lib/numbers";
import { planEquivalents } from "~/lib/operator-equivalents";
import { dateOf } from "~/lib/proto-time";

const PlanDialog = lazy(() => import("~/features/operator/edit-plan"));

const route = getRouteApi("/operator/plans/$plan");

/** A plan's versions beside each other. */
export function OperatorPlanPage() {
  const { plan } = route.useParams();
  const { operatorRole } = useRouteContext({ from: "/operator" });
  const versions = useQuery(operatorReads.plans(plan));
  const [editing, setEditing] = useState(false);
  useCopyAs(planEquivalents(plan));
  const newest = versions.data?.versions[0];
  return (
    <Page
      title={plan}
      above={
        <nav aria-label="Breadcrumb" className="text-13">
          <Link to="/operator/plans" className="text-ink-2 hover:underline">
            Plans
          </Link>
        </nav>
      }
      description="The newest version first. A tenant stays at the version that it has until it chooses the plan again, or an operator gives it the plan."
      actions={
        <Button
          variant="primary"
          blockedBecause={viewing(operatorRole) ?? (newest ? undefined : "Loading the plan.")}
          onClick={() => setEditing(true)}
        >
          Make new version
        </Button>
      }
    >
      {versions.error && !versions.data ? (
        <Refused error={versions.error} onRetry={() => void versions.refetch()} />
      ) : versions.data ? (
        <Versions data={versions.data} />
      ) : (
        <SkeletonRows rows={10} columns={3} label="Loading the plan" />
      )}
      <Suspense>
        {editing && versions.data && newest ? (
          <PlanDialog
            base={newest}
            kinds={versions.data.entitlements}
            meters={versions.data.meters}
            onClose={() => setEditing(false)}
          />
        ) : null}
      </Suspense>
    </Page>
  );
}

function Versions({ data }: { data: ListPlanVersionsResponse }) {
  const lines = planLines(data.entitlements, data.meters);
  return (
    <Card flush>
      {/* Old plans have many versions: people who scroll by keyboard must reach them. */}
      <section tabIndex={0} aria-label="Versions side by side" className="overflow-x-auto">
        <table className="w-full text-13">
          <thead>
            <tr className="border-b border-line text-left align-top">
              <th scope="col" className="px-4 py-2 text-12 font-medium text-ink-3">
                Version
              </th>
              {data.versions.map((version) => (
                <th key={version.version} scope="col" className="min-w-44 px-3 py-2 font-normal">
                  <span className="font-semibold">{version.version}</span>
                  <span className="block text-12 text-ink-3">
                    <Made version={version} />, {plural(version.tenants, "tenant")}
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {lines.map(({ id, title, text }) => (
              <tr key={id}>
                <th scope="row" className="px-4 py-1.5 text-left font-normal text-ink-2">
                  {title}
                </th>
                {data.versions.map(({ version, spec }, index) => {
                  const before = data.versions[index + 1]?.spec;
                  const is = spec ? text(spec) : "–";
                  const changed = before !== undefined && text(before) !== is;
                  return (
                    <td
                      key={version}
                      className={clsx("nums px-3 py-1.5", changed && "bg-warn-soft font-medium")}
                    >
                      {is}
                      {changed ? <span className="sr-only"> (changed)</span> : null}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Card>
  );
}

/** Those that the service came with have no time. */
function Made({ version }: { version: PlanVersion }) {
  const at = dateOf(version.createdAt);
  return at && at.getTime() > 0 ? <Time at={at} /> : "from the beginning";
}
