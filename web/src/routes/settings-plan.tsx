import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate, useRouteContext } from "@tanstack/react-router";
import { Gauge } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { Reveal } from "~/components/ui/reveal";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time, useNow } from "~/components/ui/time";
import { useChange } from "~/data/admin-queries";
import { billing, billingReads } from "~/data/billing";
import { CompareCard } from "~/features/billing/compare-card";
import { LimitsCard } from "~/features/billing/limits-card";
import { Entitlements, Prices } from "~/features/billing/plan-words";
import { UsageCard } from "~/features/billing/usage-card";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Plan, Subscription } from "~/gen/corvo/cloud/v1/plan_pb";
import { baseText, dayText, monthOf } from "~/lib/billing";
import { planEquivalents } from "~/lib/billing-equivalents";
import { dateOf } from "~/lib/proto-time";

const PlanDialog = lazy(() => import("~/features/billing/plan-dialog"));

const route = getRouteApi("/$tenant/settings/plan");

/** The tenant's plan, where its limits stand, and what was counted. */
export function PlanPage() {
  const { tenant } = route.useParams();
  const { month, namespace } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/settings/plan" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.TENANT_READ);
  const uncounted = access.blocked(Permission.BILLING_READ);
  const standing = useQuery({ ...billingReads.subscription(tenant), enabled: !unreadable });
  const plans = useQuery(billingReads.plans());
  const shown = monthOf(new Date(useNow()), month === "last" ? 1 : 0);
  useCopyAs(planEquivalents(tenant, month ? shown.toISOString().slice(0, 7) : ""));
  const { subscription, limits = [] } = standing.data ?? {};
  return (
    <Page description="What the plan gives, how much of it is used, and what was counted.">
      {unreadable ? (
        <EmptyState icon={<Gauge aria-hidden />} title="You can't view the plan">
          {unreadable}
        </EmptyState>
      ) : standing.error && !standing.data ? (
        <Problem error={standing.error} onRetry={() => void standing.refetch()} />
      ) : !subscription?.plan ? (
        <SkeletonRows rows={6} columns={3} label="Loading the plan" />
      ) : (
        <>
          <PlanCard
            tenant={tenant}
            subscription={subscription}
            plan={subscription.plan}
            plans={plans.data ?? []}
            blocked={access.blocked(Permission.BILLING_UPDATE)}
          />
          <LimitsCard
            limits={limits.filter(({ name }) => name !== "spend")}
            overLimit={subscription.plan.overLimit}
          />
        </>
      )}
      {uncounted ? (
        <Card title="Usage">
          <p className="text-13 text-ink-2">{uncounted}</p>
        </Card>
      ) : (
        <>
          <UsageCard
            tenant={tenant}
            last={month === "last"}
            namespace={namespace}
            onChange={(part) =>
              void navigate({ search: (was) => ({ ...was, ...part }), replace: true, resetScroll: false })
            }
          />
          {plans.data ? (
            <CompareCard tenant={tenant} plans={plans.data} current={subscription?.plan?.name ?? ""} />
          ) : null}
        </>
      )}
    </Page>
  );
}

interface PlanCardProps {
  tenant: string;
  subscription: Subscription;
  plan: Plan;
  plans: readonly Plan[];
  blocked: string | undefined;
}

function PlanCard({ tenant, subscription, plan, plans, blocked }: PlanCardProps) {
  const [changing, setChanging] = useState(false);
  const choosable = plans.some(({ name, selfServe }) => selfServe && name !== plan.name);
  const start = dateOf(subscription.periodStart);
  const end = dateOf(subscription.periodEnd);
  return (
    <Card
      title={`${plan.title} plan`}
      description={
        <>
          {baseText(plan)}
          {start && end
            ? `. Billed by the month in UTC: this one is from ${dayText(start)} to ${dayText(end)}.`
            : "."}
        </>
      }
      action={
        <Button
          variant="primary"
          blockedBecause={blocked ?? (choosable ? undefined : "There is no other plan to choose.")}
          onClick={() => setChanging(true)}
        >
          Change plan
        </Button>
      }
      flush
    >
      <div className="flex flex-col gap-4 p-4 empty:hidden">
        {subscription.nextPlan ? (
          <Waiting tenant={tenant} subscription={subscription} plan={plan} plans={plans} blocked={blocked} />
        ) : null}
        <Prices plan={plan} />
      </div>
      <Reveal label={`What the ${plan.title} plan gives`} title="What the plan gives" tall>
        <Entitlements
          entitlements={subscription.entitlements}
          overrides={subscription.overrides}
          plan={plan.entitlements}
        />
      </Reveal>
      <Suspense>
        {changing ? (
          <PlanDialog
            tenant={tenant}
            subscription={subscription}
            plans={plans}
            onClose={() => setChanging(false)}
          />
        ) : null}
      </Suspense>
    </Card>
  );
}

/** A change that waits for the end of the period. */
function Waiting({ tenant, subscription, plan, plans, blocked }: PlanCardProps) {
  const next = plans.find(({ name }) => name === subscription.nextPlan)?.title ?? subscription.nextPlan;
  const keep = useChange(tenant, () => billing.plans.cancelPlanChange({ tenant }), {
    done: () => `You keep the ${plan.title} plan`,
  });
  return (
    <Banner
      title={
        <>
          The plan changes to {next} on <Time at={dateOf(subscription.nextPlanAt)} format="local" />
        </>
      }
      action={
        <Button busy={keep.isPending} blockedBecause={blocked} onClick={() => keep.mutate(undefined)}>
          Keep {plan.title}
        </Button>
      }
    >
      Until then everything stays as it is.
    </Banner>
  );
}
