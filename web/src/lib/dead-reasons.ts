const reasons: Record<string, string> = {
  max_retries: "Out of attempts",
  crash_loop: "Its workers died while they ran it",
  expired: "Expired before it was done",
  rejected: "Rejected by an approver",
  dependency_failed: "A job that it waited for failed",
  terminal: "Its worker said that trying again is no use",
  budget_exceeded: "Its budget was spent",
};

/** Why a job is dead, for one that has no error to tell. */
export function deadReason(reason: string | undefined): string {
  return (reason && (reasons[reason] ?? reason.replaceAll("_", " "))) || "";
}
