import { useQuery } from "@tanstack/react-query";
import { Link, useRouteContext } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { operatorReads } from "~/data/operator";
import { viewing } from "~/features/operator/command";
import { Refused } from "~/features/operator/refused";
import type { PlanVersion } from "~/gen/corvo/cloud/v1/operator_pb";
import { money } from "~/lib/money";
import { count } from "~/lib/numbers";
import { plansEquivalents } from "~/lib/operator-equivalents";

const PlanDialog = lazy(() => import("~/features/operator/edit-plan"));

/** All plans in their newest versions. */
export function OperatorPlansPage() {
  const { operatorRole } = useRouteContext({ from: "/operator" });
  const plans = useQuery(operatorReads.plans());
  const [adding, setAdding] = useState(false);
  useCopyAs(plansEquivalents);
  const all = plans.data?.versions;
  const tenants = (name: string | undefined) =>
    (all ?? []).reduce((sum, each) => sum + (each.spec?.name === name ? each.tenants : 0), 0);
  return (
    <Page
      title="Plans"
      description="In their newest versions. A tenant stays at the version that it has."
      actions={
        <Button
          variant="primary"
          blockedBecause={viewing(operatorRole) ?? (all ? undefined : "Loading the plans.")}
          onClick={() => setAdding(true)}
        >
          New plan
        </Button>
      }
    >
      {plans.error && !plans.data ? (
        <Refused error={plans.error} onRetry={() => void plans.refetch()} />
      ) : (
        <Card flush>
          <Table
            label="Plans"
            rows={all?.filter(({ newest }) => newest)}
            rowKey={(row) => row.spec?.name ?? ""}
            columns={columns(tenants)}
          />
        </Card>
      )}
      <Suspense>
        {adding && plans.data ? (
          <PlanDialog
            kinds={plans.data.entitlements}
            meters={plans.data.meters}
            onClose={() => setAdding(false)}
          />
        ) : null}
      </Suspense>
    </Page>
  );
}

const columns = (tenants: (name: string | undefined) => number): readonly Column<PlanVersion>[] => [
  {
    id: "name",
    header: "Plan",
    phone: "title",
    cell: ({ spec }) => (
      <Link
        to="/operator/plans/$plan"
        params={{ plan: spec?.name ?? "" }}
        className="font-medium hover:underline"
      >
        {spec?.name}
      </Link>
    ),
  },
  { id: "version", header: "Version", align: "right", cell: (row) => row.version },
  {
    id: "base",
    header: "A month",
    align: "right",
    cell: ({ spec }) => <span className="nums">{money(spec?.baseAmount ?? 0n, spec?.currency ?? "")}</span>,
  },
  {
    id: "tenants",
    header: "Tenants",
    align: "right",
    cell: ({ spec }) => <span className="nums">{count(tenants(spec?.name))}</span>,
  },
  {
    id: "seen",
    header: "For",
    phone: "corner",
    cell: ({ spec }) => (
      <span className="flex gap-1">
        <Badge>{spec?.selfServe ? "tenants choose it" : "operators give it"}</Badge>
        {spec?.listed ? null : <Badge tone="warn">not listed</Badge>}
      </span>
    ),
  },
];
