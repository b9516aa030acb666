import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil, PiggyBank, Plus, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";

import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { toast } from "~/components/ui/toast";
import { UsedBar } from "~/components/ui/used-bar";
import { type Budget, pageApi } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import type { Scope } from "~/data/token";
import { dollars } from "~/lib/money";
import { firstBudget } from "~/lib/page-equivalents";

const BudgetDialog = lazy(() => import("./budget-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

const deeds: Record<Budget["on_exceed"], string> = {
  hold: "Hold jobs",
  reject: "Reject new jobs",
  alert_only: "Alert only",
};

/** What models may cost, and how much of it is spent today. */
export function Budgets({ scope, blocked }: { scope: Scope; blocked: string | undefined }) {
  const client = useQueryClient();
  const budgets = useQuery({ ...pageReads.budgets(scope), refetchInterval: 15_000 });
  const [open, setOpen] = useState<{ what: "put" | "delete"; budget?: Budget } | null>(null);
  const create = (
    <Button
      size="sm"
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => setOpen({ what: "put" })}
    >
      New budget
    </Button>
  );

  const columns: Column<Budget>[] = [
    {
      id: "what",
      header: "Applies to",
      phone: "title",
      cell: (budget) => <span className="font-medium wrap-anywhere">{nameOf(budget)}</span>,
    },
    {
      id: "spent",
      header: "Spent today",
      width: "w-64",
      phone: "block",
      cell: (budget) => <Spent budget={budget} />,
    },
    {
      id: "perJob",
      header: "Limit per job",
      align: "right",
      phoneSkip: (budget) => !budget.per_job_usd,
      cell: (budget) =>
        budget.per_job_usd ? (
          <span className="nums">{dollars(budget.per_job_usd)}</span>
        ) : (
          <span className="text-ink-3">no limit</span>
        ),
    },
    { id: "on", header: "When reached", cell: (budget) => deeds[budget.on_exceed] },
    actionsColumn({ width: "w-20", phone: "corner", blockedBecause: blocked }, (budget) => [
      {
        label: `Edit budget for ${nameOf(budget)}`,
        icon: <Pencil aria-hidden />,
        onClick: () => setOpen({ what: "put", budget }),
      },
      {
        label: `Delete budget for ${nameOf(budget)}`,
        icon: <Trash2 aria-hidden />,
        danger: true,
        onClick: () => setOpen({ what: "delete", budget }),
      },
    ]),
  ];

  return (
    <Card
      title="Budgets"
      description="Daily budgets reset at 00:00 UTC."
      action={budgets.data?.length ? create : null}
      flush
    >
      {budgets.error && !budgets.data ? (
        <Problem error={budgets.error} onRetry={() => void budgets.refetch()} />
      ) : (
        <Table
          label="Budgets"
          columns={columns}
          rows={budgets.data}
          rowKey={(budget) => budget.id}
          skeletonRows={2}
          empty={
            <EmptyState
              icon={<PiggyBank aria-hidden />}
              title="No budgets"
              action={create}
              snippet={<CodeBlock language="shell" label="Set a budget" code={firstBudget} />}
            >
              A budget stops a queue, a customer or the whole namespace before an agent in a loop spends more
              than you planned.
            </EmptyState>
          }
        />
      )}
      <Suspense>
        {open?.what === "put" ? (
          <BudgetDialog scope={scope} budget={open.budget} onClose={() => setOpen(null)} />
        ) : null}
        {open?.what === "delete" && open.budget ? (
          <Confirm
            onClose={() => setOpen(null)}
            title={`Delete budget for ${nameOf(open.budget)}?`}
            confirmLabel="Delete budget"
            onConfirm={async () => {
              if (open.budget) await pageApi.deleteBudget(scope, open.budget);
              toast({ title: "Budget deleted" });
              await client.invalidateQueries({ queryKey: pageReads.budgets(scope).queryKey });
            }}
          >
            Spending is no longer limited, and the recorded spend is deleted.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );
}

function nameOf(budget: Budget): string {
  if (budget.scope === "global") return "the namespace";
  return budget.scope === "queue" ? budget.target : `tag ${budget.target}`;
}

function Spent({ budget }: { budget: Budget }) {
  const spent = budget.spent_usd ?? 0;
  if (!budget.daily_usd)
    return (
      <span className="nums text-12 text-ink-2">
        {dollars(spent)} <span className="text-ink-3">no daily limit</span>
      </span>
    );
  return (
    <UsedBar
      share={spent / budget.daily_usd}
      text={`${dollars(spent)} of ${dollars(budget.daily_usd)}`}
      full="spent"
      near="nearly spent"
    />
  );
}
