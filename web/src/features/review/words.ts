import type { ReviewedPrincipal } from "~/gen/corvo/cloud/v1/review_pb";
import { dateOf } from "~/lib/proto-time";

export const typeNames: Record<string, string> = {
  user: "Member",
  service_account: "Service account",
  key: "API key",
};

const header = [
  "type",
  "id",
  "name",
  "owner",
  "roles",
  "groups",
  "created",
  "last_used",
  "expires",
  "unused_90_days",
  "disabled",
];

/** The review as a file for a spreadsheet. */
export function reviewCsv(rows: readonly ReviewedPrincipal[]): string {
  const time = (at: ReviewedPrincipal["createdAt"]) => dateOf(at)?.toISOString() ?? "";
  const lines = rows.map((row) => [
    row.type,
    row.principalId,
    row.principal,
    row.owner,
    row.roles.join("; "),
    row.groups.join("; "),
    time(row.createdAt),
    time(row.lastUsedAt),
    time(row.expiresAt),
    String(row.unused),
    String(row.disabled),
  ]);
  return [header, ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

// A spreadsheet would calculate what begins like a formula.
const formula = /^[=+\-@\t\r]/;

function cell(text: string): string {
  const safe = formula.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
