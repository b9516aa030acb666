import type { Equivalents } from "~/components/shell/copy-as";
import { shellQuote } from "./equivalents";

/** The sign-in policy by other means. */
export function policyEquivalents(tenant: string): Equivalents {
  const at = `--tenant ${shellQuote(tenant)}`;
  return {
    cli: [
      `corvo policy get ${at}`,
      `corvo policy set --require-second-factor --key-life-max 90d ${at}`,
      "",
      "# before you require single sign-on",
      `corvo policy break-glass create ${at}`,
      `corvo policy set --require-sso ${at}`,
    ].join("\n"),
  };
}
