import type { Equivalents } from "~/components/shell/copy-as";
import { shellQuote } from "./equivalents";

const at = (tenant: string) => `--tenant ${shellQuote(tenant)}`;

/** Plan and usage by other means. The month is as in 2026-11; empty is the current one. */
export function planEquivalents(tenant: string, month = ""): Equivalents {
  const of = month ? ` --month ${month}` : "";
  return {
    cli: [
      `corvo plan show ${at(tenant)}`,
      `corvo usage show${of} --by-namespace ${at(tenant)}`,
      "",
      "# what another plan would cost",
      `corvo plan list ${at(tenant)}`,
      `corvo invoice preview${of} --plan team ${at(tenant)}`,
    ].join("\n"),
    terraform: 'data "corvo_plan" "current" {}',
  };
}

/** Invoices, payment and the spend limit by other means. */
export function billingEquivalents(tenant: string): Equivalents {
  return {
    cli: [
      `corvo billing show ${at(tenant)}`,
      `corvo invoice list ${at(tenant)}`,
      `corvo invoice preview ${at(tenant)}`,
      "",
      "# compute it again from what was counted",
      `corvo usage export ${at(tenant)} > usage.ndjson`,
      "corvo usage verify usage.ndjson",
      "",
      "# limit what the tenant spends in a month",
      `corvo spend-limit set --amount 200 --action hold ${at(tenant)}`,
    ].join("\n"),
  };
}
