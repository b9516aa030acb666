import { createClient } from "@connectrpc/connect";
import { queryOptions } from "@tanstack/react-query";
import { PolicyService } from "~/gen/corvo/cloud/v1/policy_pb";
import { transport } from "./control";

/** How people sign in to a tenant. Apart from admin.ts, which the first page loads. */
export const policies = createClient(PolicyService, transport);

export const policyReads = {
  policy: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "policy"],
      queryFn: () => policies.getSignInPolicy({ tenant }),
    }),
  keys: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "policy", "keys"],
      queryFn: () => policies.listKeysOutsidePolicy({ tenant }),
    }),
} as const;
