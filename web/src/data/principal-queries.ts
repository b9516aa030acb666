import { queryOptions } from "@tanstack/react-query";
import type { AccessQuestion } from "~/lib/access-equivalents";
import { every } from "./admin-queries";
import { principals } from "./principals";

const pageSize = 200;

/** Reads about who may do what. They stand below those of the tenant, so that each change reads them again. */
export const principalReads = {
  permissions: () =>
    queryOptions({
      queryKey: ["permissions"],
      queryFn: async () => (await principals.roles.listPermissions({})).permissions,
      staleTime: Number.POSITIVE_INFINITY,
    }),
  roles: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "roles"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.roles.listRoles({ tenant, pageSize, pageToken });
          return { items: answer.roles, next: answer.nextPageToken };
        }),
    }),
  bindings: (tenant: string, filter: { principalId?: string; roleId?: string }) =>
    queryOptions({
      queryKey: ["control", tenant, "bindings", filter],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.roles.listRoleBindings({ tenant, pageSize, pageToken, ...filter });
          return { items: answer.roleBindings, next: answer.nextPageToken };
        }),
    }),
  accounts: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "service-accounts"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.accounts.listServiceAccounts({ tenant, pageSize, pageToken });
          return { items: answer.serviceAccounts, next: answer.nextPageToken };
        }),
    }),
  trusts: (tenant: string, serviceAccountId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "trusts", serviceAccountId],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.trusts.listTrusts({
            tenant,
            serviceAccountId,
            pageSize,
            pageToken,
          });
          return { items: answer.trusts, next: answer.nextPageToken };
        }),
    }),
  groups: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "groups"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.groups.listGroups({ tenant, pageSize, pageToken });
          return { items: answer.groups, next: answer.nextPageToken };
        }),
    }),
  groupMembers: (tenant: string, groupId: string) =>
    queryOptions({
      queryKey: ["control", tenant, "group-members", groupId],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.groups.listGroupMembers({ tenant, groupId, pageSize, pageToken });
          return { items: answer.members, next: answer.nextPageToken };
        }),
    }),
  review: (tenant: string) =>
    queryOptions({
      queryKey: ["control", tenant, "access-review"],
      queryFn: () =>
        every(async (pageToken) => {
          const answer = await principals.access.listAccessReview({ tenant, pageSize, pageToken });
          return { items: answer.principals, next: answer.nextPageToken };
        }),
    }),
  explain: (tenant: string, question: AccessQuestion & { who: string; what: string }) =>
    queryOptions({
      queryKey: ["control", tenant, "explain", question],
      queryFn: () =>
        principals.access.explain({
          tenant,
          principalId: question.who,
          permission: question.what,
          scope: scopeOf(question),
        }),
    }),
  whoCan: (tenant: string, question: AccessQuestion & { what: string }) =>
    queryOptions({
      queryKey: ["control", tenant, "who-can", question],
      queryFn: () =>
        every(async (pageToken) => {
          const { what: permission } = question;
          const scope = scopeOf(question);
          const answer = await principals.access.listWhoCan({
            tenant,
            permission,
            scope,
            pageSize,
            pageToken,
          });
          return { items: answer.principals, next: answer.nextPageToken };
        }),
    }),
  /** Which of some permissions somebody has at a place. */
  allowed: (tenant: string, { who, ...place }: AccessQuestion & { who: string }, names: readonly string[]) =>
    queryOptions({
      queryKey: ["control", tenant, "allowed", who, place.namespace, place.queue, names.length],
      queryFn: async () => {
        const answers = await Promise.all(
          names.map((permission) =>
            principals.access.explain({ tenant, principalId: who, permission, scope: scopeOf(place) }),
          ),
        );
        return names.filter((_, index) => answers[index]?.allowed);
      },
    }),
} as const;

function scopeOf({ namespace = "", queue = "" }: AccessQuestion) {
  return { namespace, queues: queue };
}
