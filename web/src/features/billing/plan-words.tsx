import { Facts } from "~/components/ui/card";
import type { Entitlement, Override, Plan } from "~/gen/corvo/cloud/v1/plan_pb";
import { dayText, entitlementText, meters, priceText } from "~/lib/billing";
import { dateOf } from "~/lib/proto-time";

/** What a plan's use costs, one line for each meter that has a price. */
export function Prices({ plan }: { plan: Plan }) {
  if (plan.prices.length === 0) return null;
  return (
    <Facts
      items={meters.flatMap(({ item, title }) =>
        plan.prices
          .filter(({ meter }) => meter === item)
          .map((price) => ({ label: title, value: priceText(price, plan.currency) })),
      )}
    />
  );
}

interface EntitlementsProps {
  entitlements: readonly Entitlement[];
  overrides: readonly Override[];
  /** The plan's own, which an override differs from. */
  plan: readonly Entitlement[];
}

/** All that a tenant has, and what of it is not by its plan. */
export function Entitlements({ entitlements, overrides, plan }: EntitlementsProps) {
  return (
    <dl className="grid gap-x-8 text-13 sm:grid-cols-2">
      {entitlements.map((entitlement) => {
        const override = overrides.find(({ name }) => name === entitlement.name);
        const own = plan.find(({ name }) => name === entitlement.name);
        const ends = dateOf(override?.endsAt);
        return (
          <div
            key={entitlement.name}
            className="flex min-w-0 flex-wrap justify-between gap-x-4 border-b border-line py-1.5"
          >
            <dt className="text-ink-2">{entitlement.title || entitlement.name}</dt>
            <dd className="nums font-medium">{entitlementText(entitlement)}</dd>
            {override ? (
              <dd className="w-full text-12 wrap-anywhere text-ink-3">
                {own ? `Instead of ${entitlementText(own)}` : "Not by the plan"}
                {ends ? `, until ${dayText(ends)}` : ""}
                {override.reason ? `: ${override.reason}` : ""}
              </dd>
            ) : null}
          </div>
        );
      })}
    </dl>
  );
}
