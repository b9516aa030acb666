import { expect, test } from "vitest";
import type { Chain } from "~/data/page-api";
import { chainGraph, stepsDone } from "./chain-graph";

const chain = (more: Partial<Chain>): Chain => ({
  id: "chn_1",
  status: "running",
  current_step: 1,
  continue_on_failure: false,
  created_at: "2026-11-21T10:00:00Z",
  steps: [
    { step: 0, queue: "extract", job_id: "job_a", state: "completed" },
    { step: 1, queue: "convert", job_id: "job_b", state: "active" },
    { step: 2, queue: "load" },
  ],
  ...more,
});
const lines = (of: Chain) =>
  chainGraph(of).edges.map((edge) => `${edge.from}${edge.open ? " .. " : " -> "}${edge.to}`);

test("steps follow each other; the way ahead is open", () => {
  expect(lines(chain({}))).toEqual(["step-0 -> step-1", "step-1 .. step-2"]);
  expect(stepsDone(chain({}), 3)).toBe(1);
  expect(stepsDone(chain({ status: "completed", current_step: 2 }), 3)).toBe(3);
});

test("a failure leaves the line where the chain stopped", () => {
  const failed = chain({
    status: "failed",
    steps: [
      { step: 0, queue: "extract", job_id: "job_a", state: "completed" },
      { step: 1, queue: "convert", job_id: "job_b", state: "dead" },
      { step: 2, queue: "load" },
    ],
    on_failure: { step: 3, queue: "alerts", job_id: "job_f", state: "pending" },
  });
  expect(lines(failed)).toEqual(["step-0 -> step-1", "step-1 .. step-2", "step-1 -> failure"]);
  expect(chainGraph(failed).nodes.find((node) => node.id === "step-2")?.note).toBe("not reached");
});

test("the job of the exit follows the last step, or the one that said exit", () => {
  expect(lines(chain({ on_exit: { step: 3, queue: "report" } })).at(-1)).toBe("step-2 .. exit");
  const early = chain({
    status: "exited",
    on_exit: { step: 3, queue: "report", job_id: "job_x", state: "completed" },
  });
  expect(lines(early).at(-1)).toBe("step-1 -> exit");
  expect(chainGraph(early).nodes.at(-1)?.branch).toBe(true);
});

test("the job that a page is about is marked", () => {
  const { nodes } = chainGraph(chain({}), "job_b");
  expect(nodes.filter((node) => node.here).map((node) => node.id)).toEqual(["step-1"]);
});
