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

/** Commands of the command line; lines that begin with # are remarks. */
function commands(tenant: string, ...lines: string[]): string {
  const at = `--tenant ${shellQuote(tenant)}`;
  return lines.map((line) => (line === "" || line.startsWith("#") ? line : `corvo ${line} ${at}`)).join("\n");
}

export const firstAccount = (tenant: string) =>
  commands(
    tenant,
    "service-accounts create billing --role worker",
    "keys create billing-1 --owner billing --in default",
  );

export const accountsEquivalents = (tenant: string): Equivalents => ({
  curl: call("ServiceAccountService/ListServiceAccounts", { tenant }),
  cli: `${commands(tenant, "service-accounts list", "", "# one with a key")}\n${firstAccount(tenant)}`,
});

export const keysEquivalents = (tenant: string, namespace: string): Equivalents => ({
  curl: call("ApiKeyService/ListApiKeys", { tenant }),
  cli: commands(
    tenant,
    "keys list",
    "",
    "# one for some queues, from one network",
    `keys create mailer --role worker --in ${shellQuote(namespace)} --queue 'emails.*' --cidr 203.0.113.0/24`,
    "",
    "# other limits, another secret",
    "keys update KEY_ID --permission job.fetch,job.read",
    "keys rotate KEY_ID",
  ),
});

export const keyEquivalents = (tenant: string, keyId: string): Equivalents => ({
  curl: [
    call("ApiKeyService/GetApiKey", { tenant, keyId }),
    "",
    "# what happened to it, and what it did",
    call("AuditService/ListAuditEvents", { tenant, targetId: keyId }),
    call("AuditService/ListAuditEvents", { tenant, actorId: keyId }),
  ].join("\n"),
  cli: commands(
    tenant,
    `keys get ${keyId}`,
    `access explain job.enqueue --principal ${keyId}`,
    "",
    "# what happened to it, and what it did",
    `audit list --target ${keyId}`,
    `audit list --actor ${keyId}`,
  ),
});

export const membersEquivalents = (tenant: string): Equivalents => ({
  curl: call("MemberService/ListMembers", { tenant }),
  cli: commands(tenant, "members list", "members update name@company.com --role developer"),
});

export const ssoEquivalents = (tenant: string, connection = "CONNECTION_ID"): Equivalents => ({
  curl: call("SsoService/ListSsoConnections", { tenant }),
  cli: commands(
    tenant,
    "sso list",
    "",
    "# its client secret comes from CORVO_SSO_CLIENT_SECRET",
    "sso create Okta --issuer https://company.okta.com --client-id 0oa1 --map admins=admin --default-role viewer",
    `sso test ${connection}`,
    `sso enable ${connection}`,
  ),
});

export const auditEquivalents = (tenant: string, action?: string): Equivalents => ({
  curl: call("AuditService/ListAuditEvents", { tenant, ...(action ? { action } : {}) }),
  cli: commands(
    tenant,
    `audit list${action ? ` --action ${shellQuote(action)}` : ""}`,
    "audit export --after 30d --output-file audit.ndjson",
    "",
    "# where it is sent",
    "audit sinks",
  ),
});

export const rolesEquivalents = (tenant: string): Equivalents => ({
  curl: [
    call("RoleService/ListRoles", { tenant }),
    "",
    "# who has which role where",
    call("RoleService/ListRoleBindings", { tenant }),
  ].join("\n"),
  cli: commands(
    tenant,
    "roles list",
    "roles create on-call --permission job.list,job.retry,queue.pause",
    "",
    "# who has which role where",
    "bindings list",
  ),
});

export const firstGroup = (tenant: string) =>
  commands(tenant, "groups create support", "groups add support name@company.com");

export const groupsEquivalents = (tenant: string): Equivalents => ({
  curl: call("GroupService/ListGroups", { tenant }),
  cli: `${commands(tenant, "groups list")}\n${firstGroup(tenant)}`,
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
  const place = [
    ...(namespace ? [` --in ${shellQuote(namespace)}`] : []),
    ...(queue ? [` --queue ${shellQuote(queue)}`] : []),
  ].join("");
  if (what && who)
    return {
      curl: call("AccessService/Explain", { tenant, principalId: who, permission: what, ...scope }),
      cli: commands(tenant, `access explain ${shellQuote(what)} --principal ${shellQuote(who)}${place}`),
    };
  if (what)
    return {
      curl: call("AccessService/ListWhoCan", { tenant, permission: what, ...scope }),
      cli: commands(tenant, `access who-can ${shellQuote(what)}${place}`),
    };
  return {
    curl: call("AccessService/ListAccessReview", { tenant }),
    cli: commands(tenant, "access review", "access review --csv"),
  };
}
