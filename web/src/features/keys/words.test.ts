import { expect, it } from "vitest";
import { limitsOf } from "./words";

const names = new Map([["ns_1", "production"]]);
const key = (permissions: string[], namespaceIds: string[] = [], queues: string[] = []) => ({
  permissions,
  namespaceIds,
  queues,
});

it("says what a key is limited to, in a line", () => {
  expect(limitsOf(key([]), names)).toBe("what its owner can in all namespaces");
  expect(limitsOf(key(["a", "b", "c"], ["ns_1"]), names)).toBe("a, b, c in production");
  expect(limitsOf(key(["a", "b", "c", "d"], ["ns_1", "ns_2"], ["mail", "x.*"]), names)).toBe(
    "a, b and 2 more in production, a deleted namespace, queues mail, x.*",
  );
});
