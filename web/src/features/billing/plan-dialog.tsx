import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field } from "~/components/ui/field";
import { Skeleton } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { useChange } from "~/data/admin-queries";
import { billing, billingReads } from "~/data/billing";
import { describeError, fieldErrors, otherError, refusalReason } from "~/data/control";
import type { ChangePlanResponse, Plan, Subscription } from "~/gen/corvo/cloud/v1/plan_pb";
import { baseText } from "~/lib/billing";
import { dateOf } from "~/lib/proto-time";
import { Prices } from "./plan-words";
import { useProviderPage } from "./provider-page";

interface PlanDialogProps {
  tenant: string;
  subscription: Subscription;
  plans: readonly Plan[];
  onClose: () => void;
}

/** Changes the plan, after a check that says when, what it costs and what won't fit. */
export default function PlanDialog({ tenant, subscription, plans, onClose }: PlanDialogProps) {
  const others = plans.filter(({ name, selfServe }) => selfServe && name !== subscription.plan?.name);
  const [name, setName] = useState(others[0]?.name ?? "");
  const plan = others.find((candidate) => candidate.name === name);
  const check = useQuery({ ...billingReads.planCheck(tenant, name), enabled: name !== "" });
  const save = useChange(
    tenant,
    () => billing.plans.changePlan({ tenant, plan: name, etag: subscription.etag }),
    { quiet: true, done: (answer) => doneWords(answer, plan) },
  );
  // Whoever has an unpaid invoice has a subscription, and pays in the portal.
  const payable =
    refusalReason(check.data?.refusal) === "PAYMENT_REQUIRED" && subscription.state === "active";
  return (
    <FormDialog
      onClose={onClose}
      title="Change plan"
      description={`${tenant} has the ${subscription.plan?.title ?? ""} plan.`}
      submit="Change plan"
      size="md"
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={
        check.isFetching
          ? "Checking the change."
          : check.data?.refusal
            ? "This change isn't possible now."
            : undefined
      }
      failure={save.error ? describeError(save.error) : undefined}
      more={payable ? <Checkout tenant={tenant} plan={name} /> : null}
    >
      <Field label="New plan">
        <Choice
          options={others.map((other) => ({
            value: other.name,
            label: `${other.title} (${baseText(other)})`,
          }))}
          value={name}
          onChange={setName}
        />
      </Field>
      {check.isPending ? (
        <p role="status" aria-label="Loading the check" className="flex flex-col gap-2 py-1">
          <Skeleton className="h-4 w-3/4" />
          <Skeleton className="h-4 w-1/2" />
        </p>
      ) : check.data?.refusal ? (
        <Refusal error={check.data.refusal} />
      ) : check.data?.answer ? (
        <Effect answer={check.data.answer} plan={plan} />
      ) : null}
      {plan ? <Prices plan={plan} /> : null}
    </FormDialog>
  );
}

/** Whether the change waits for the end of the period. */
const waits = ({ subscription }: ChangePlanResponse, plan: Plan | undefined) =>
  subscription?.nextPlan !== "" && subscription?.nextPlan === plan?.name;

function doneWords(answer: ChangePlanResponse, plan: Plan | undefined): string {
  return waits(answer, plan)
    ? `The plan changes to ${plan?.title} at the end of the month`
    : `You have the ${plan?.title} plan`;
}

function Effect({ answer, plan }: { answer: ChangePlanResponse; plan: Plan | undefined }) {
  const at = dateOf(answer.effectiveAt);
  const price = plan && plan.baseAmount > 0n ? baseText(plan) : undefined;
  return waits(answer, plan) ? (
    <Banner
      tone="info"
      title={
        <>
          The plan changes on <Time at={at} format="local" />
        </>
      }
    >
      Until then everything stays as it is, and you can take the change back. If something doesn't fit the
      plan by then, the plan doesn't change and the owners get an email.
    </Banner>
  ) : (
    <Banner tone="ok" title="The plan changes now">
      Everything you have fits.{" "}
      {price
        ? `It costs ${price}. This month costs its part of that, for the hours that are left.`
        : "It has no monthly price."}
    </Banner>
  );
}

/** What stands in the way of a change. */
function Refusal({ error }: { error: unknown }) {
  const wrong = Object.entries(fieldErrors(error));
  return (
    <Banner
      tone={wrong.length > 0 ? "danger" : "warn"}
      title={otherError(error) ?? "This doesn't fit the plan"}
    >
      {wrong.length > 0 ? (
        <ul className="list-disc pl-5">
          {wrong.map(([name, problem]) => (
            <li key={name}>{problem}</li>
          ))}
        </ul>
      ) : null}
    </Banner>
  );
}

/** Goes to the payment provider's page, where the plan is paid for. */
function Checkout({ tenant, plan }: { tenant: string; plan: string }) {
  const payments = useQuery(billingReads.payments(tenant));
  const start = useProviderPage(tenant, () => billing.payments.startCheckout({ tenant, plan }));
  if (!payments.data?.payments) return null;
  return (
    <Button variant="accent" busy={start.isPending} onClick={() => start.mutate(undefined)}>
      Go to checkout
    </Button>
  );
}
