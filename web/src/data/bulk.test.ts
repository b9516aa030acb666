import { describe, expect, it } from "vitest";
import { type BulkOperation, followBulk } from "./bulk";
import { DataError } from "./jobs-api";
import { Unreachable } from "./reach";

const scope = { tenant: "acme", namespace: "default" };
const at = (processed: number, more: Partial<BulkOperation> = {}): BulkOperation => ({
  id: "bulk_1",
  status: "running",
  action: "retry",
  created_at: "",
  updated_at: "",
  total: 4,
  processed,
  affected: processed,
  errors: 0,
  ...more,
});

/** Follows an operation of which these answers are read, one after the other. */
async function follow(...answers: (BulkOperation | Error)[]) {
  const told: number[] = [];
  const paths = new Set<string>();
  const read = async (path: string) => {
    paths.add(path);
    const answer = answers.shift();
    if (!answer) throw new Error("asked too often");
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const end = await followBulk(
    scope,
    "bulk_1",
    (operation) => told.push(operation.processed),
    read,
    async () => {},
  );
  expect([...paths]).toEqual(["/bulk/bulk_1"]);
  return { end, told, unread: answers.length };
}

const away = () => new DataError(503, "NOT_LEADER", "no leader", undefined, {});

describe("following an operation", () => {
  it("tells each step and ends with the last", async () => {
    const { end, told, unread } = await follow(
      at(0, { status: "queued" }),
      at(2),
      at(4, { status: "completed", affected: 3, errors: 1 }),
      at(9),
    );
    expect([told, unread]).toEqual([[0, 2, 4], 1]);
    expect(end).toMatchObject({ affected: 3, errors: 1 });
  });
  it("goes on when nobody answers for a moment", async () => {
    const { told } = await follow(at(1), away(), new Unreachable(), at(4, { status: "completed" }));
    expect(told).toEqual([1, 4]);
  });
  it("gives up when nobody answers for long", async () => {
    await expect(follow(at(1), ...Array.from({ length: 26 }, away))).rejects.toThrow("no leader");
  });
  it("says why it failed, and when nobody knows about it", async () => {
    await expect(follow(at(1), at(1, { status: "failed", error: "list behind" }))).rejects.toThrow(
      "list behind",
    );
    const gone = new DataError(404, "NOT_FOUND", "no such operation", undefined, {});
    await expect(follow(at(1), gone)).rejects.toThrow("What it did stays done.");
  });
  it("does not ask again after a refusal", async () => {
    const refused = new DataError(403, "FORBIDDEN", "not yours", undefined, {});
    await expect(follow(refused, at(4, { status: "completed" }))).rejects.toThrow("not yours");
  });
});
