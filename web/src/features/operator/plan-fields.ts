import type { EntitlementKind, PlanSpec } from "~/gen/corvo/cloud/v1/operator_pb";
import { entitlementText, meterOf, priceText } from "~/lib/billing";
import { money } from "~/lib/money";

/** One line of a plan, as people compare versions by it. */
export interface PlanLine {
  id: string;
  title: string;
  text: (spec: PlanSpec) => string;
}

/** All lines of plans, in the order in which people read them. */
export function planLines(kinds: readonly EntitlementKind[], meters: readonly string[]): PlanLine[] {
  return [
    { id: "title", title: "Title", text: (spec) => spec.title },
    { id: "base_amount", title: "A month", text: (spec) => money(spec.baseAmount, spec.currency) },
    { id: "rank", title: "Rank", text: (spec) => String(spec.rank) },
    { id: "over_limit", title: "Beyond its jobs in a month", text: (spec) => overLimitWord(spec.overLimit) },
    { id: "self_serve", title: "Tenants can choose it", text: (spec) => yesNo(spec.selfServe) },
    { id: "listed", title: "Tenants see it", text: (spec) => yesNo(spec.listed) },
    ...meters.map((meter) => ({
      id: `prices.${meter}`,
      title: `Price of ${meterOf(meter)?.title.toLowerCase() ?? meter}`,
      text: (spec: PlanSpec) => {
        const price = spec.prices.find((each) => each.meter === meter);
        return price ? priceText(price, spec.currency) : "–";
      },
    })),
    ...kinds.map(({ name, title, unit }) => ({
      id: `entitlements.${name}`,
      title,
      text: (spec: PlanSpec) => {
        const value = spec.entitlements[name];
        return entitlementText({ name, unit, value: value ?? 0n, unlimited: value === undefined });
      },
    })),
  ];
}

const yesNo = (is: boolean) => (is ? "Yes" : "No");

export const overLimits = [
  { value: "hold_dispatch", label: "No attempt begins" },
  { value: "reject_enqueues", label: "Enqueues are rejected" },
];

const overLimitWord = (value: string) => overLimits.find((each) => each.value === value)?.label ?? value;
