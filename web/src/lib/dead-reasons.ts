import type { DeadReason } from "~/gen/openapi";

const reasons: Record<DeadReason, string> = {
  max_retries: "Out of attempts",
  crash_loop: "Its workers kept crashing",
  expired: "Expired before it completed",
  rejected: "Rejected by an approver",
  dependency_failed: "A job it depends on failed",
  terminal: "Its worker marked the error as permanent",
  budget_exceeded: "Over budget",
};

/** Why a job is dead, if it has no error. */
export function deadReason(reason: DeadReason | undefined): string {
  return (reason && (reasons[reason] ?? reason.replaceAll("_", " "))) || "";
}

/** What jobs of a group died of, in one line. */
export function groupWords(group: { error?: string; dead_reason?: DeadReason }): string {
  return group.error || deadReason(group.dead_reason) || "No error message";
}
