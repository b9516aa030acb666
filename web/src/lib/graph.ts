// A layered layout for small graphs: each node stands after all that lead to it, and as
// near to them as its neighbours allow. Enough for chains and dependencies, which have
// tens of nodes; the drawing is the caller's.

export interface GraphEdge {
  from: string;
  to: string;
}

export interface GraphNode {
  id: string;
  /** Placed beside its predecessor's path, not on it. */
  branch?: boolean;
}

/** A position in the graph: layer, and lane within it (0 is the first). */
export interface Place {
  layer: number;
  lane: number;
}

export interface Layout {
  places: Map<string, Place>;
  layers: number;
  /** How wide the widest layer reaches; at least 1. */
  lanes: number;
}

/** Edges that would close a cycle are ignored. */
export function layout(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Layout {
  const before = predecessors(nodes, edges);
  const layerOf = layersOf(nodes, before);
  const layers: GraphNode[][] = [];
  for (const node of nodes) {
    const layer = layerOf.get(node.id) ?? 0;
    layers[layer] ??= [];
    layers[layer].push(node);
  }
  const places = new Map<string, Place>();
  for (const [layer, members] of layers.entries()) {
    const wanted = members.map((node, index) => ({
      node,
      index,
      lane: wantedLane(node, index, before, places),
    }));
    wanted.sort((a, b) => a.lane - b.lane || a.index - b.index);
    const lanes = spread(wanted.map((entry) => entry.lane));
    for (const [at, { node }] of wanted.entries()) places.set(node.id, { layer, lane: lanes[at] ?? at });
  }
  const first = Math.min(0, ...[...places.values()].map((place) => place.lane));
  let last = 0;
  for (const place of places.values()) {
    place.lane -= first;
    last = Math.max(last, place.lane);
  }
  return { places, layers: layers.length, lanes: last + 1 };
}

type Predecessors = Map<string, string[]>;

function predecessors(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Predecessors {
  const before: Predecessors = new Map(nodes.map((node) => [node.id, []]));
  for (const { from, to } of edges) {
    const list = before.get(to);
    if (list && before.has(from) && from !== to && !leadsTo(before, to, from)) list.push(from);
  }
  return before;
}

/** Whether the edges so far lead from one node to another. */
function leadsTo(before: Predecessors, from: string, to: string, seen = new Set<string>()): boolean {
  if (from === to) return true;
  if (seen.has(to)) return false;
  seen.add(to);
  return (before.get(to) ?? []).some((earlier) => leadsTo(before, from, earlier, seen));
}

/** The length of the longest path to each node. */
function layersOf(nodes: readonly GraphNode[], before: Predecessors): Map<string, number> {
  const known = new Map<string, number>();
  const layer = (id: string): number => {
    const found = known.get(id);
    if (found !== undefined) return found;
    const value = Math.max(-1, ...(before.get(id) ?? []).map(layer)) + 1;
    known.set(id, value);
    return value;
  };
  for (const node of nodes) layer(node.id);
  return known;
}

function wantedLane(
  node: GraphNode,
  index: number,
  before: Predecessors,
  places: Map<string, Place>,
): number {
  const lanes = (before.get(node.id) ?? []).flatMap((id) => places.get(id)?.lane ?? []);
  if (lanes.length === 0) return index;
  const middle = lanes.reduce((sum, lane) => sum + lane, 0) / lanes.length;
  return node.branch ? middle + 1 : middle;
}

/**
 * Lanes at least one apart and together as near as possible to the wanted ones, which
 * are in order: neighbours that want the same place move apart from its middle.
 */
function spread(wanted: readonly number[]): number[] {
  const blocks: { start: number; size: number }[] = [];
  for (const lane of wanted) {
    let block = { start: lane, size: 1 };
    for (let last = blocks.at(-1); last && last.start + last.size > block.start; last = blocks.at(-1)) {
      blocks.pop();
      const size = last.size + block.size;
      // The mean of what the members want for the block's start.
      block = { start: (last.start * last.size + (block.start - last.size) * block.size) / size, size };
    }
    blocks.push(block);
  }
  return blocks.flatMap(({ start, size }) => Array.from({ length: size }, (_, n) => start + n));
}
