import type { Edge, Node } from "~/components/graph/graph";
import type { Chain, ChainStatus, ChainStep } from "~/data/page-api";

/** How many of its steps led to the next one. */
export function stepsDone(chain: { status: ChainStatus; current_step: number }, total: number): number {
  return chain.status === "completed" ? total : chain.current_step;
}

/** A chain as a line of steps, with its on_exit and on_failure jobs. */
export function chainGraph(chain: Chain, here?: string): { nodes: Node[]; edges: Edge[] } {
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  const over = chain.status !== "running";
  // A chain that failed or was cancelled still shows the steps that it did not reach.
  const unmade = chain.status === "failed" || chain.status === "cancelled" ? "not reached" : "skipped";
  const node = (id: string, role: string, step: ChainStep, more: Partial<Node> = {}) =>
    nodes.push({
      id,
      role,
      title: step.queue,
      job: step.job_id,
      state: step.state,
      here: here !== undefined && step.job_id === here,
      ...more,
    });

  // The furthest step is where a failure or an exit leaves the line.
  const last = chain.current_step;
  for (const [index, step] of chain.steps.entries()) {
    node(`step-${index}`, `Step ${index + 1} of ${chain.steps.length}`, step, {
      note: step.job_id ? "deleted" : over ? unmade : "not started",
    });
    if (index > 0) edges.push({ from: `step-${index - 1}`, to: `step-${index}`, open: !step.job_id });
  }

  const failure = chain.on_failure;
  if (failure) {
    node("failure", "On failure", failure, {
      branch: true,
      note: over ? unmade : "if a step fails",
    });
    edges.push({ from: `step-${last}`, to: "failure", open: !failure.job_id });
  }
  const exit = chain.on_exit;
  if (exit) {
    // Left early: the job of the exit stands beside the steps that were skipped.
    const early = exit.job_id !== undefined && last < chain.steps.length - 1;
    const from = exit.job_id === undefined ? chain.steps.length - 1 : last;
    node("exit", "On exit", exit, { branch: early, note: over ? unmade : "at the end" });
    edges.push({ from: `step-${from}`, to: "exit", open: !exit.job_id });
  }
  return { nodes, edges };
}
