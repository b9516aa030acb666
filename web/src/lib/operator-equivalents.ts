import type { Equivalents } from "~/components/shell/copy-as";
import type { TenantFilter } from "~/data/operator";
import { shellQuote } from "./equivalents";

// Operators have commands on the host: each needs --database, which CORVO_DATABASE can name.

const flags = (all: Record<string, string>) =>
  Object.entries(all)
    .filter(([, value]) => value)
    .map(([name, value]) => ` --${name} ${shellQuote(value)}`)
    .join("");

export function tenantsEquivalents(filter: TenantFilter): Equivalents {
  return { cli: `corvo-cloud control tenants${flags({ ...filter })}` };
}

export function tenantEquivalents(tenant: string): Equivalents {
  return {
    cli: [
      `corvo-cloud control tenants --search ${shellQuote(tenant)}`,
      `corvo-cloud control set-plan ${shellQuote(tenant)} team --reason 'contract 17'`,
      `corvo-cloud control override set ${shellQuote(tenant)} namespaces_max 100 --reason migration --ends 2027-01-31T00:00:00Z`,
    ].join("\n"),
  };
}

export const setPlanCommand = (tenant: string, plan: string, reason: string) =>
  `corvo-cloud control set-plan ${shellQuote(tenant)} ${shellQuote(plan)}${flags({ reason })}`;

export const setOverrideCommand = (
  tenant: string,
  name: string,
  value: string,
  reason: string,
  ends: string,
) =>
  `corvo-cloud control override set ${shellQuote(tenant)} ${name} ${shellQuote(value || "0")}${flags({ reason, ends })}`;

export const removeOverrideCommand = (tenant: string, name: string, reason: string) =>
  `corvo-cloud control override remove ${shellQuote(tenant)} ${name}${flags({ reason })}`;

export const plansEquivalents: Equivalents = { cli: "corvo-cloud control plans list" };

export const applyPlanCommand = (reason: string) =>
  `corvo-cloud control plans apply plan.yaml${flags({ reason })}`;

export function planEquivalents(plan: string): Equivalents {
  const name = shellQuote(plan);
  return {
    cli: [
      `corvo-cloud control plans show ${name} > plan.yaml`,
      "corvo-cloud control plans apply plan.yaml --dry-run",
      "corvo-cloud control plans apply plan.yaml --reason 'new prices'",
    ].join("\n"),
  };
}

export const reconciliationEquivalents: Equivalents = {
  cli: [
    "# what this page shows",
    "corvo-cloud control reconciliation",
    "",
    "# compare now",
    "corvo-cloud control stripe reconcile --now --master-key-file control.key",
  ].join("\n"),
};
