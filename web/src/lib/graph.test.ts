import { expect, test } from "vitest";
import { type GraphEdge, type GraphNode, layout } from "./graph";

const nodes = (...ids: string[]): GraphNode[] => ids.map((id) => ({ id }));
const edges = (...pairs: string[]): GraphEdge[] =>
  pairs.map((pair) => ({ from: pair.slice(0, 1), to: pair.slice(1) }));
const at = (list: GraphNode[], ways: GraphEdge[]) =>
  Object.fromEntries([...layout(list, ways).places].map(([id, place]) => [id, [place.layer, place.lane]]));

test("a chain is a straight line", () => {
  expect(at(nodes("a", "b", "c"), edges("ab", "bc"))).toEqual({ a: [0, 0], b: [1, 0], c: [2, 0] });
});

test("a branch stands beside the line, which stays straight", () => {
  const places = at([...nodes("a", "b"), { id: "f", branch: true }, ...nodes("c")], edges("ab", "bf", "bc"));
  expect(places).toEqual({ a: [0, 0], b: [1, 0], c: [2, 0], f: [2, 1] });
});

test("what waits for several stands in their middle", () => {
  expect(at(nodes("a", "b", "c", "z"), edges("az", "bz", "cz"))).toEqual({
    a: [0, 0],
    b: [0, 1],
    c: [0, 2],
    z: [1, 1],
  });
});

test("what follows on one spreads around it", () => {
  const { places, lanes, layers } = layout(nodes("a", "x", "y", "z"), edges("ax", "ay", "az"));
  expect([lanes, layers]).toEqual([3, 2]);
  expect(places.get("a")).toEqual({ layer: 0, lane: 1 });
  expect(["x", "y", "z"].map((id) => places.get(id)?.lane)).toEqual([0, 1, 2]);
});

test("a node stands after the longest way to it", () => {
  expect(at(nodes("a", "b", "c"), edges("ac", "ab", "bc")).c?.[0]).toBe(2);
});

test("neighbours never share a place", () => {
  const all = nodes(..."abcdefghij");
  const { places } = layout(all, edges("ad", "ae", "bd", "bf", "cf", "cg", "dh", "eh", "fi", "gj"));
  const taken = [...places.values()];
  for (const [n, one] of taken.entries())
    for (const other of taken.slice(n + 1))
      if (one.layer === other.layer) expect(Math.abs(one.lane - other.lane)).toBeGreaterThanOrEqual(1 - 1e-9);
});

test("a loop, which cannot be, does not hang the page", () => {
  expect(layout(nodes("a", "b"), edges("ab", "ba")).layers).toBe(2);
});
