import type { Equivalents } from "~/components/shell/copy-as";
import { shellQuote } from "./equivalents";

// Who may do what, by the control API. $CORVO_TOKEN is a management key.

function call(method: string, body: object): string {
  return [
    `curl -s "$CORVO_ENDPOINT/corvo.cloud.v1.${method}" \\`,
    '  -H "Authorization: Bearer $CORVO_TOKEN" -H "Content-Type: application/json" \\',
    `  -d ${shellQuote(JSON.stringify(body))}`,
  ].join("\n");
}

export const firstAccount = (tenant: string) =>
  call("ServiceAccountService/CreateServiceAccount", { tenant, name: "billing", roles: ["worker"] });

export const accountsEquivalents = (tenant: string): Equivalents => ({
  curl: call("ServiceAccountService/ListServiceAccounts", { tenant }),
});

export const rolesEquivalents = (tenant: string): Equivalents => ({
  curl: [
    call("RoleService/ListRoles", { tenant }),
    "",
    "# who has which role where",
    call("RoleService/ListRoleBindings", { tenant }),
  ].join("\n"),
});

export const firstGroup = (tenant: string) => call("GroupService/CreateGroup", { tenant, name: "on call" });

export const groupsEquivalents = (tenant: string): Equivalents => ({
  curl: call("GroupService/ListGroups", { tenant }),
});

export interface AccessQuestion {
  who?: string | undefined;
  what?: string | undefined;
  namespace?: string | undefined;
  queue?: string | undefined;
}

export function reviewEquivalents(tenant: string, question: AccessQuestion): Equivalents {
  const { who, what, namespace, queue } = question;
  const scope = namespace || queue ? { scope: { namespace, queues: queue } } : {};
  if (what && who)
    return { curl: call("AccessService/Explain", { tenant, principalId: who, permission: what, ...scope }) };
  if (what) return { curl: call("AccessService/ListWhoCan", { tenant, permission: what, ...scope }) };
  return { curl: call("AccessService/ListAccessReview", { tenant }) };
}
