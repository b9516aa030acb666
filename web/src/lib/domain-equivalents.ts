import type { Equivalents } from "~/components/shell/copy-as";
import { shellQuote } from "./equivalents";

/** Domains by other means. */
export function domainsEquivalents(tenant: string): Equivalents {
  const at = `--tenant ${shellQuote(tenant)}`;
  return {
    cli: [
      `corvo domains list ${at}`,
      "",
      "# claim one, add the TXT record, then",
      `corvo domains create company.com ${at}`,
      `corvo domains verify company.com --wait 10m ${at}`,
    ].join("\n"),
  };
}
