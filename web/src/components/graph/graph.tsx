import { Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import type { ReactNode } from "react";
import { StateBadge } from "~/components/ui/state-badge";
import type { Scope } from "~/data/token";
import { type GraphEdge, type GraphNode, layout, type Place } from "~/lib/graph";
import { useMedia } from "~/lib/media";
import type { JobState } from "~/lib/states";

export interface Node extends GraphNode {
  /** The queue, mostly. */
  title: string;
  /** What the node is: "Step 2", "On failure". */
  role: string;
  /** The node's job; unset if it has not been made. */
  job?: string | undefined;
  state?: JobState | undefined;
  /** Shown instead of a state if there is no job. */
  note?: string | undefined;
  /** The page is about this node. */
  here?: boolean;
}

export interface Edge extends GraphEdge {
  label?: string | undefined;
  /** An edge that was not taken, or not yet. */
  open?: boolean;
}

interface GraphProps {
  scope: Scope;
  /** What the graph shows, for screen readers. */
  label: string;
  nodes: readonly Node[];
  edges: readonly Edge[];
}

const WIDTH = 196;
const HEIGHT = 88;
// A row of more layers than this runs down the page instead of out of it.
const ACROSS_MAX = 5;

interface Box {
  x: number;
  y: number;
}

/**
 * Jobs and what leads from one to the next. Nodes are a list of links in the order of the
 * layers, for keyboards and screen readers; the lines between them are decoration, and
 * say nothing that roles and notes do not.
 */
export function Graph({ scope, label, nodes, edges }: GraphProps) {
  const desk = useMedia("(min-width: 48rem)");
  const { places, layers, lanes } = layout(nodes, edges);
  const down = !desk || layers > ACROSS_MAX;
  // A phone has room for two lanes of narrower nodes.
  const width = desk ? WIDTH : 148;
  const step = down ? { layer: HEIGHT + 44, lane: width + 24 } : { layer: width + 48, lane: HEIGHT + 28 };
  const boxOf = ({ layer, lane }: Place): Box =>
    down ? { x: lane * step.lane, y: layer * step.layer } : { x: layer * step.layer, y: lane * step.lane };
  const size = down
    ? { width: (lanes - 1) * step.lane + width, height: (layers - 1) * step.layer + HEIGHT }
    : { width: (layers - 1) * step.layer + width, height: (lanes - 1) * step.lane + HEIGHT };
  const ordered = [...nodes].sort((a, b) => order(places.get(a.id)) - order(places.get(b.id)));

  return (
    // A region that scrolls must be reachable by keyboard.
    <section
      aria-label={label}
      tabIndex={0}
      className="scroll-thin overflow-x-auto p-1 focus-visible:-outline-offset-2"
    >
      <div className="relative mx-auto" style={{ width: size.width, height: size.height }}>
        <svg
          aria-hidden
          width={size.width}
          height={size.height}
          className="absolute inset-0 overflow-visible"
        >
          {edges.map((edge) => {
            const from = places.get(edge.from);
            const to = places.get(edge.to);
            if (!from || !to) return null;
            return (
              <Way
                key={`${edge.from} ${edge.to}`}
                from={boxOf(from)}
                to={boxOf(to)}
                width={width}
                down={down}
                edge={edge}
              />
            );
          })}
        </svg>
        <ol>
          {ordered.map((node) => {
            const box = boxOf(places.get(node.id) ?? { layer: 0, lane: 0 });
            return (
              <li
                key={node.id}
                className="absolute"
                style={{ left: box.x, top: box.y, width, height: HEIGHT }}
              >
                <NodeBox scope={scope} node={node} />
              </li>
            );
          })}
        </ol>
      </div>
    </section>
  );
}

function order(place: Place | undefined): number {
  return place ? place.layer * 1_000 + place.lane : 0;
}

function NodeBox({ scope, node }: { scope: Scope; node: Node }) {
  const frame = clsx(
    "flex h-full flex-col justify-center gap-1 rounded-lg border px-3 py-2",
    node.here ? "border-accent bg-accent-soft" : "border-line-strong bg-surface",
    node.job || node.here ? "shadow-1" : "border-dashed",
  );
  const inside: ReactNode = (
    <>
      <span className="shrink-0 truncate text-11 text-ink-3">{node.role}</span>
      <span
        className={clsx("shrink-0 truncate text-13 font-medium", node.job ? "text-ink" : "text-ink-2")}
        title={node.title}
      >
        {node.title}
      </span>
      <span className="flex min-h-5.5 shrink-0 items-center text-12 text-ink-3">
        {node.state ? (
          <StateBadge state={node.state} className="-ml-1 scale-95" />
        ) : (
          (node.note ?? "not created yet")
        )}
      </span>
    </>
  );
  if (!node.job || node.here)
    return (
      <div className={frame} aria-current={node.here ? "true" : undefined}>
        {inside}
      </div>
    );
  return (
    <Link
      to="/$tenant/$namespace/jobs/$job"
      params={{ ...scope, job: node.job }}
      className={clsx(frame, "transition-colors hover:border-ink-3 hover:bg-hover")}
    >
      {inside}
    </Link>
  );
}

interface WayProps {
  from: Box;
  to: Box;
  width: number;
  down: boolean;
  edge: Edge;
}

/** A line from the end of one node to the beginning of another, with its head. */
function Way({ from, to, width, down, edge }: WayProps) {
  const begin = down
    ? { x: from.x + width / 2, y: from.y + HEIGHT }
    : { x: from.x + width, y: from.y + HEIGHT / 2 };
  const end = down ? { x: to.x + width / 2, y: to.y } : { x: to.x, y: to.y + HEIGHT / 2 };
  const half = down ? (end.y - begin.y) / 2 : (end.x - begin.x) / 2;
  const bend = down
    ? `C ${begin.x} ${begin.y + half} ${end.x} ${end.y - half} ${end.x} ${end.y - 2}`
    : `C ${begin.x + half} ${begin.y} ${end.x - half} ${end.y} ${end.x - 2} ${end.y}`;
  const head = down
    ? `M ${end.x - 4} ${end.y - 6} L ${end.x} ${end.y - 1} L ${end.x + 4} ${end.y - 6}`
    : `M ${end.x - 6} ${end.y - 4} L ${end.x - 1} ${end.y} L ${end.x - 6} ${end.y + 4}`;
  return (
    <g
      className={edge.open ? "text-line-strong" : "text-ink-3"}
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
    >
      <path d={`M ${begin.x} ${begin.y} ${bend}`} strokeDasharray={edge.open ? "4 4" : undefined} />
      <path d={head} strokeLinecap="round" strokeLinejoin="round" />
    </g>
  );
}
