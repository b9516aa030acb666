import type { Equivalents } from "~/components/shell/copy-as";
import { shellQuote } from "./equivalents";

/** Directory sync of a connection by other means. */
export function directoryEquivalents(tenant: string, connectionId: string): Equivalents {
  const at = `--tenant ${shellQuote(tenant)}`;
  return {
    cli: [
      `corvo directory get ${connectionId} ${at}`,
      `corvo directory tokens ${connectionId} ${at}`,
      "",
      "# a token for the directory, printed once",
      `corvo directory create-token ${connectionId} --life 8760h ${at}`,
      "",
      "# once the directory has another one",
      `corvo directory revoke-token TOKEN_ID ${at}`,
    ].join("\n"),
  };
}

/** From nothing to a token. */
export function firstDirectory(tenant: string): string {
  const at = `--tenant ${shellQuote(tenant)}`;
  return [
    `corvo sso create Okta --issuer https://company.okta.com \\`,
    `  --client-id 0oa1 --default-role viewer ${at}`,
    `corvo directory create-token CONNECTION_ID ${at}`,
  ].join("\n");
}
