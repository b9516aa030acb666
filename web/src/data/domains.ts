import { createClient } from "@connectrpc/connect";
import { queryOptions } from "@tanstack/react-query";
import { DomainService } from "~/gen/corvo/cloud/v1/domain_pb";
import { transport } from "./control";

/** Domains of a tenant. Apart from admin.ts, which the first page loads. */
export const domains = createClient(DomainService, transport);

export const domainReads = {
  all: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "domains"],
      queryFn: async () => (await domains.listDomains({ tenant })).domains,
    }),
} as const;

/**
 * The page of the server that starts single sign-on for an address; undefined if a link is
 * mailed to it.
 */
export async function findSignIn(email: string): Promise<string | undefined> {
  const { ssoUrl } = await domains.findSignIn({ email });
  if (!ssoUrl) return undefined;
  const { pathname, search } = new URL(ssoUrl); // On this origin, whatever the service calls itself.
  return pathname + search;
}
