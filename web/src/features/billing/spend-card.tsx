import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { SkeletonRows } from "~/components/ui/skeleton";
import { toast } from "~/components/ui/toast";
import { UsedBar } from "~/components/ui/used-bar";
import { useChange } from "~/data/admin-queries";
import { billing, billingReads } from "~/data/billing";
import type { SpendLimit } from "~/gen/corvo/cloud/v1/usage_pb";
import { shareOf } from "~/lib/billing";
import { money } from "~/lib/money";
import { spendActions } from "./spend-actions";

const SpendDialog = lazy(() => import("./spend-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

/** The most that the tenant wants to spend in a month. */
export function SpendCard({ tenant, blocked }: { tenant: string; blocked: string | undefined }) {
  const spend = useQuery(billingReads.spendLimit(tenant));
  // With the limit that was asked about: another one since then must not be overwritten unseen.
  const [open, setOpen] = useState<{ what: "set" | "remove"; limit: SpendLimit }>();
  const { limit, spent = 0n } = spend.data ?? {};
  const remove = useChange(
    tenant,
    (etag: string) => billing.usage.setSpendLimit({ tenant, limit: { etag } }),
    { quiet: true },
  );
  const set = limit !== undefined && limit.amount > 0n;
  const action = spendActions.find(({ value }) => value === limit?.action);
  return (
    <Card
      title="Spend limit"
      description="The most that you want to spend in a month (UTC), before tax."
      action={
        limit ? (
          <span className="flex flex-wrap gap-2">
            {set ? (
              <Button
                variant="danger-ghost"
                blockedBecause={blocked}
                onClick={() => setOpen({ what: "remove", limit })}
              >
                Remove
              </Button>
            ) : null}
            <Button
              variant={set ? "secondary" : "primary"}
              blockedBecause={blocked}
              onClick={() => setOpen({ what: "set", limit })}
            >
              {set ? "Edit spend limit" : "Set spend limit"}
            </Button>
          </span>
        ) : null
      }
    >
      {spend.error && !spend.data ? (
        <Problem error={spend.error} onRetry={() => void spend.refetch()} />
      ) : !limit ? (
        <SkeletonRows rows={1} columns={2} label="Loading the spend limit" />
      ) : set ? (
        <div className="flex flex-col gap-2">
          <UsedBar
            share={shareOf(spent, limit.amount)}
            text={`${money(spent, limit.currency)} of ${money(limit.amount, limit.currency)} spent this month`}
            full="limit reached"
            near="nearly reached"
          />
          <p className="text-13 text-ink-2">
            {action ? `At the limit, ${lowerFirst(action.description ?? "")}` : null}{" "}
            {limit.alertPercents.length > 0
              ? `Emails are sent at ${percents(limit.alertPercents)}.`
              : "No emails are sent before."}
          </p>
        </div>
      ) : (
        <p className="text-13 text-ink-2">No limit. {money(spent, limit.currency)} spent this month.</p>
      )}
      <Suspense>
        {open?.what === "set" ? (
          <SpendDialog tenant={tenant} limit={open.limit} onClose={() => setOpen(undefined)} />
        ) : null}
        {open?.what === "remove" ? (
          <Confirm
            onClose={() => setOpen(undefined)}
            title="Remove the spend limit?"
            confirmLabel="Remove spend limit"
            onConfirm={async () => {
              await remove.mutateAsync(open.limit.etag);
              toast({ kind: "ok", title: "Removed the spend limit" });
            }}
          >
            Spending is no longer limited. Jobs that wait because of the limit start again.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

const percents = (list: readonly number[]) =>
  new Intl.ListFormat("en-US", { type: "conjunction" }).format(list.map((percent) => `${percent}%`));
