import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useRouteContext } from "@tanstack/react-router";
import { CreditCard } from "lucide-react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { billingReads } from "~/data/billing";
import { InvoicesCard } from "~/features/billing/invoices-card";
import { MonthCard } from "~/features/billing/month-card";
import { PaymentCard } from "~/features/billing/payment-card";
import { SpendCard } from "~/features/billing/spend-card";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { GetSubscriptionResponse } from "~/gen/corvo/cloud/v1/plan_pb";
import { billingEquivalents } from "~/lib/billing-equivalents";

const route = getRouteApi("/$tenant/settings/billing");

/** What the tenant pays, how, and how much at most. */
export function BillingPage() {
  const { tenant } = route.useParams();
  const { checkout } = route.useSearch();
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.BILLING_READ);
  const blocked = access.blocked(Permission.BILLING_UPDATE);
  useCopyAs(billingEquivalents(tenant));
  return (
    <Page description="What this month costs, past invoices, how you pay, and a limit of what you spend.">
      {unreadable ? (
        <EmptyState icon={<CreditCard aria-hidden />} title="You can't view billing">
          {unreadable}
        </EmptyState>
      ) : (
        <>
          {checkout ? <Paid tenant={tenant} /> : null}
          <MonthCard tenant={tenant} />
          <SpendCard tenant={tenant} blocked={blocked} />
          <InvoicesCard tenant={tenant} />
          <PaymentCard tenant={tenant} blocked={blocked} />
        </>
      )}
    </Page>
  );
}

const WAIT_MS = 2_000;

/** What becomes of a payment: the plan changes once the provider has told of it. */
function Paid({ tenant }: { tenant: string }) {
  const standing = useQuery({
    ...billingReads.subscription(tenant),
    staleTime: 0,
    refetchInterval: ({ state }) => (planOf(state.data)?.baseAmount ? false : WAIT_MS),
  });
  const plan = planOf(standing.data);
  return (
    <Banner tone="ok" title="Payment received">
      {plan?.baseAmount
        ? `You have the ${plan.title} plan.`
        : "The plan changes once the payment provider confirms it, usually within seconds."}
    </Banner>
  );
}

const planOf = (standing: GetSubscriptionResponse | undefined) => standing?.subscription?.plan;
