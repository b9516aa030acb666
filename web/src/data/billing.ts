import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { BillingService } from "~/gen/corvo/cloud/v1/billing_pb";
import { type ChangePlanResponse, PlanService } from "~/gen/corvo/cloud/v1/plan_pb";
import { UsageService } from "~/gen/corvo/cloud/v1/usage_pb";
import { nextMonth } from "~/lib/billing";
import { transport } from "./control";

/** Plan, usage and payments of a tenant. Apart from admin.ts, which the first page loads. */
export const billing = {
  plans: createClient(PlanService, transport),
  usage: createClient(UsageService, transport),
  payments: createClient(BillingService, transport),
} as const;

const MINUTE = 60_000;

/**
 * What a change would do, or why it is refused. A refusal is an answer here and no error, which would
 * be forgotten, with the way to the checkout that is offered for it, while the check is repeated.
 */
export interface PlanCheck {
  answer?: ChangePlanResponse;
  refusal?: unknown;
}

export const billingReads = {
  plans: () =>
    queryOptions({
      queryKey: ["plans"],
      queryFn: async () => (await billing.plans.listPlans({})).plans,
      staleTime: 10 * MINUTE,
    }),
  /** Every page asks for it, because of what it must tell. */
  subscription: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "subscription"],
      queryFn: () => billing.plans.getSubscription({ tenant }),
      staleTime: MINUTE,
      refetchInterval: 5 * MINUTE,
    }),
  /** What a change to a plan would do; it is refused for what stands in its way. */
  planCheck: (tenant: string, plan: string) =>
    queryOptions({
      queryKey: ["control", tenant, "plan-check", plan],
      queryFn: () =>
        billing.plans.changePlan({ tenant, plan, validateOnly: true }).then(
          (answer): PlanCheck => ({ answer }),
          (refusal: unknown): PlanCheck => ({ refusal }),
        ),
      staleTime: 0,
    }),
  /** Of a month by day. `current` says that it is the billing period, which has a forecast. */
  usage: (tenant: string, month: Date, current: boolean, byNamespace: boolean) =>
    queryOptions({
      queryKey: ["control", tenant, "usage", month.toISOString(), current, byNamespace],
      queryFn: () =>
        billing.usage.getUsage({
          tenant,
          byNamespace,
          ...(current ? {} : { from: timestampFromDate(month), to: timestampFromDate(nextMonth(month)) }),
        }),
      staleTime: MINUTE,
    }),
  /** Of a month, with the tenant's own plan or as if it had another one. */
  invoice: (tenant: string, month: Date, plan = "") =>
    queryOptions({
      queryKey: ["control", tenant, "invoice", month.toISOString(), plan],
      queryFn: () => billing.usage.previewInvoice({ tenant, period: timestampFromDate(month), plan }),
      staleTime: MINUTE,
    }),
  spendLimit: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "spend-limit"],
      queryFn: () => billing.usage.getSpendLimit({ tenant }),
      staleTime: MINUTE,
    }),
  payments: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "billing"],
      queryFn: async () => (await billing.payments.getBilling({ tenant })).billing,
    }),
  invoices: (tenant: string) =>
    infiniteQueryOptions({
      queryKey: ["control", tenant, "invoices"],
      queryFn: ({ pageParam }) =>
        billing.payments.listInvoices({ tenant, pageSize: 24, pageToken: pageParam }),
      initialPageParam: "",
      getNextPageParam: (last) => last.nextPageToken || undefined,
    }),
} as const;
