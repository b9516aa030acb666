import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "~/components/ui/toast";
import type { ListAuditEventsRequest } from "~/gen/corvo/cloud/v1/audit_pb";
import { admin } from "./admin";
import { describeError } from "./control";

type Page<T> = { items: T[]; next: string };

// These lists are short (a plan bounds them), so pages show them whole.
export async function every<T>(page: (token: string) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = [];
  for (let token = ""; ; ) {
    const { items, next } = await page(token);
    all.push(...items);
    if (!next) return all;
    token = next;
  }
}

const pageSize = 200;

/** What narrows the audit log; a subset of the request. */
export type AuditFilter = Partial<
  Pick<ListAuditEventsRequest, "action" | "actorId" | "namespace" | "targetId">
>;

// How often the newest entries are asked for: those of queues and jobs come some seconds late.
const RENEW_MS = 10_000;

/** How the audit log stays new on a page. Whoever reads older entries is not interrupted. */
export const renewed = {
  refetchInterval: (query: { state: { data: { pages: readonly unknown[] } | undefined } }) =>
    (query.state.data?.pages.length ?? 0) > 1 ? (false as const) : RENEW_MS,
};

/** Reads of the settings pages. */
export const adminReads = {
  keys: (tenant: string, showRevoked: boolean, ownerId = "") =>
    queryOptions({
      queryKey: ["control", tenant, "keys", showRevoked, ownerId],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await admin.keys.listApiKeys({
            tenant,
            pageSize,
            pageToken,
            showRevoked,
            ownerId,
          });
          return { items: answer.apiKeys, next: answer.nextPageToken };
        }),
    }),
  /** With what the key can do now, which the list doesn't have. */
  key: (tenant: string, keyId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "key", keyId],
      queryFn: async () => (await admin.keys.getApiKey({ tenant, keyId })).apiKey,
    }),
  members: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "members"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await admin.members.listMembers({ tenant, pageSize, pageToken });
          return { items: answer.members, next: answer.nextPageToken };
        }),
    }),
  memberKeys: (tenant: string, userId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "member-keys", userId],
      queryFn: async () => (await admin.members.listMemberKeys({ tenant, userId })).keys,
    }),
  invitations: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "invitations"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await admin.members.listInvitations({ tenant, pageSize, pageToken });
          return { items: answer.invitations, next: answer.nextPageToken };
        }),
    }),
  connections: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "sso"],
      queryFn: async () => (await admin.sso.listSsoConnections({ tenant })).connections,
    }),
  audit: (tenant: string, filter: AuditFilter) =>
    infiniteQueryOptions({
      queryKey: ["control", tenant, "audit", filter],
      queryFn: ({ pageParam }) =>
        admin.audit.listAuditEvents({ tenant, pageSize: 50, pageToken: pageParam, ...filter }),
      initialPageParam: "",
      getNextPageParam: (last) => last.nextPageToken || undefined,
    }),
  auditSinks: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "audit-sinks"],
      queryFn: async () => (await admin.audit.listAuditSinks({ tenant })).sinks,
    }),
} as const;

/**
 * A change through the control API: afterwards the tenant's lists are read again, and a
 * refusal becomes a message unless the caller shows it beside its field.
 */
export function useChange<Input, Output>(
  tenant: string,
  change: (input: Input) => Promise<Output>,
  options: { quiet?: boolean; done?: (output: Output) => string | undefined } = {},
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: (output) => {
      const said = options.done?.(output);
      if (said) toast({ kind: "ok", title: said });
    },
    onError: (error) => {
      if (!options.quiet)
        toast({ kind: "error", title: "That didn't work", description: describeError(error) });
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["control", tenant] }),
  });
}

/** An idempotency id for a call that may be retried. */
export function newRequestId(): string {
  return crypto.randomUUID();
}
