import type { Schedule } from "~/data/page-api";

/** Why a schedule can't be edited; undefined if it can. Saving it sends its payload, which has to be known. */
export function editBlocked(schedule: Schedule | undefined): string | undefined {
  return schedule?.redacted
    ? "You don't have permission to see its payload, which saving it would replace."
    : undefined;
}
