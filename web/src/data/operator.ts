import { createClient } from "@connectrpc/connect";
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "~/components/ui/toast";
import { OperatorService } from "~/gen/corvo/cloud/v1/operator_pb";
import { transport } from "./control";

/** What operators of the service call. */
export const operators = createClient(OperatorService, transport);

const MINUTE = 60_000;

/** What narrows and orders the list of tenants; empty is unset. */
export interface TenantFilter {
  search: string;
  plan: string;
  state: string;
  sort: string;
}

export const operatorReads = {
  tenants: (filter: TenantFilter) =>
    infiniteQueryOptions({
      queryKey: ["operator", "tenants", filter],
      queryFn: ({ pageParam }) => operators.listTenants({ ...filter, pageSize: 100, pageToken: pageParam }),
      initialPageParam: "",
      getNextPageParam: (last) => last.nextPageToken || undefined,
      placeholderData: (before) => before,
      staleTime: MINUTE,
      retry: false,
    }),
  /** By name or id. */
  tenant: (tenant: string) =>
    queryOptions({
      queryKey: ["operator", "tenant", tenant],
      queryFn: () => operators.describeTenant({ tenant }),
      refetchInterval: MINUTE,
      retry: false,
    }),
  /** All versions, of one plan or of all. */
  plans: (plan = "") =>
    queryOptions({
      queryKey: ["operator", "plans", plan],
      queryFn: () => operators.listPlanVersions({ plan }),
      staleTime: MINUTE,
      retry: false,
    }),
  reconciliation: () =>
    queryOptions({
      queryKey: ["operator", "reconciliation"],
      queryFn: () => operators.getReconciliation({}),
      refetchInterval: MINUTE / 2,
      retry: false,
    }),
} as const;

/** A change by an operator. Its dialog shows what is refused. */
export function useOperatorChange<Input, Output>(
  change: (input: Input) => Promise<Output>,
  done: (output: Output) => string,
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: (output) => toast({ kind: "ok", title: done(output) }),
    onSettled: () => client.invalidateQueries({ queryKey: ["operator"] }),
  });
}
