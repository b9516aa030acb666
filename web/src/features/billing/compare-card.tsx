import { useQueries } from "@tanstack/react-query";
import { Badge } from "~/components/ui/badge";
import { Card } from "~/components/ui/card";
import { Skeleton } from "~/components/ui/skeleton";
import { type Column, Table } from "~/components/ui/table";
import { useNow } from "~/components/ui/time";
import { billingReads } from "~/data/billing";
import { describeError } from "~/data/control";
import type { Plan } from "~/gen/corvo/cloud/v1/plan_pb";
import { baseText, monthOf, monthText } from "~/lib/billing";
import { money } from "~/lib/money";

interface Row {
  plan: Plan;
  total: string | undefined;
  problem: string | undefined;
}

/** What last month's usage would have cost with each plan. */
export function CompareCard({
  tenant,
  plans,
  current,
}: {
  tenant: string;
  plans: readonly Plan[];
  current: string;
}) {
  const month = monthOf(new Date(useNow()), 1);
  const priced = plans.filter((plan) => plan.selfServe);
  const previews = useQueries({
    queries: priced.map(({ name }) => billingReads.invoice(tenant, month, name)),
  });
  const rows = priced.map((plan, index): Row => {
    const { data, error } = previews[index] ?? {};
    const invoice = data?.invoice;
    return {
      plan,
      total: invoice && money(invoice.total, invoice.currency),
      problem: error ? describeError(error) : undefined,
    };
  });
  return (
    <Card
      title={`${monthText(month)} with other plans`}
      description="What the usage of last month would have cost, before tax."
      flush
    >
      {previews.length > 0 && previews.every(({ data }) => data?.invoice?.lines.length === 0) ? (
        <p className="px-4 py-3 text-13 text-ink-2">
          {tenant} had no plan in {monthText(month)}. The comparison appears after its first month.
        </p>
      ) : (
        <Table
          label="Cost of last month by plan"
          columns={columns(current)}
          rows={rows}
          rowKey={({ plan }) => plan.name}
        />
      )}
    </Card>
  );
}

const columns = (current: string): readonly Column<Row>[] => [
  {
    id: "plan",
    header: "Plan",
    phone: "title",
    cell: ({ plan }) => (
      <span className="flex flex-wrap items-center gap-2 font-medium">
        {plan.title}
        {plan.name === current ? <Badge tone="accent">your plan</Badge> : null}
      </span>
    ),
  },
  { id: "base", header: "Price", cell: ({ plan }) => baseText(plan) },
  {
    id: "total",
    header: "Would have cost",
    align: "right",
    phone: "corner",
    cell: ({ total, problem }) =>
      total ? (
        <span className="nums font-medium">{total}</span>
      ) : problem ? (
        <span className="text-12 text-danger-text">{problem}</span>
      ) : (
        <Skeleton className="ml-auto h-3 w-16" />
      ),
  },
];
