import type * as Api from "~/gen/openapi";
import { DataError, type JobFilter, plain, post, seg } from "./jobs-api";
import { isUnreachable } from "./reach";
import type { Scope } from "./token";

// One action on all jobs that a filter finds. The service does it in the background; who
// asked for it follows its progress.

export type BulkAction =
  | { action: "retry" }
  | { action: "delete" }
  | { action: "move"; move_to_queue: string };

/** How far it is. Its total is a lower bound if there are very many; refused says why of the first errors. */
export type BulkOperation = Api.BulkOperation;

const ASK_EVERY_MS = 400;
// A restart of anything in between takes far less than this.
const SILENT_MAX = 25;

/** Begins an action on all jobs of a filter, and answers the operation's id. */
export async function startBulk(scope: Scope, filter: JobFilter, action: BulkAction): Promise<string> {
  const body = { ...action, filter, async: true };
  return (await post<Api.BulkBegun>(scope, "/jobs/bulk", body)).bulk_operation_id;
}

/**
 * Follows an operation to its end, telling how far it is. Rejects if it failed, or if
 * nobody knows about it any more: what it did is done either way.
 */
export async function followBulk(
  scope: Scope,
  id: string,
  onProgress: (operation: BulkOperation) => void,
  read = (path: string) => plain<BulkOperation>(scope, path),
  pause = () => new Promise<void>((resolve) => setTimeout(resolve, ASK_EVERY_MS)),
): Promise<BulkOperation> {
  for (let silent = 0; ; await pause()) {
    let operation: BulkOperation;
    try {
      operation = await read(`/bulk/${seg(id)}`);
    } catch (error) {
      if (error instanceof DataError && error.status === 404)
        throw new Error(
          "The node that ran this operation stopped, so it isn't known how far it got. What it did stays done. Do it again for the rest.",
        );
      if (!isPassing(error) || ++silent > SILENT_MAX) throw error;
      continue;
    }
    silent = 0;
    onProgress(operation);
    if (operation.status === "failed") throw new Error(operation.error || "The operation failed.");
    if (operation.status === "completed") return operation;
  }
}

function isPassing(error: unknown): boolean {
  return (
    isUnreachable(error) || (error instanceof DataError && (error.status >= 500 || error.status === 429))
  );
}
