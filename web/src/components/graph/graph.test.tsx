// @vitest-environment happy-dom
import { cleanup, screen, within } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { showAt } from "~/testing/page";
import { type Edge, Graph, type Node } from "./graph";

afterEach(cleanup);

const scope = { tenant: "acme", namespace: "production" };

async function show(nodes: Node[], edges: Edge[] = []) {
  await showAt(
    "/acme/production/jobs/job_2",
    <Graph scope={scope} label="Steps" nodes={nodes} edges={edges} />,
  );
  const graph = screen.getByRole("region", { name: "Steps" });
  return { graph, items: within(graph).getAllByRole("listitem") };
}

it("nodes are read in the order of the work, whatever order they came in", async () => {
  const { items } = await show(
    [
      { id: "c", title: "notify", role: "Step 3" },
      { id: "a", title: "fetch", role: "Step 1" },
      { id: "b", title: "convert", role: "Step 2" },
    ],
    [
      { from: "a", to: "b" },
      { from: "b", to: "c" },
    ],
  );
  expect(items.map((item) => item.textContent)).toEqual([
    "Step 1fetchnot created yet",
    "Step 2convertnot created yet",
    "Step 3notifynot created yet",
  ]);
});

it("another job is a link, this one is marked, and what is no job says why", async () => {
  const { items } = await show([
    { id: "a", title: "fetch", role: "Step 1", job: "job_1", state: "completed" },
    { id: "b", title: "convert", role: "Step 2", job: "job_2", state: "active", here: true },
    { id: "c", title: "alert", role: "On failure", note: "only if a step fails" },
  ]);
  const of = (title: string) => {
    const item = items.find((found) => within(found).queryByText(title));
    if (!item) throw new Error(`no node ${title}`);
    return item;
  };
  const first = within(of("fetch")).getByRole("link");
  expect(first.getAttribute("href")).toBe("/acme/production/jobs/job_1");
  expect(first.textContent).toContain("Completed");
  expect(within(of("convert")).queryByRole("link")).toBeNull();
  expect(of("convert").querySelector("[aria-current=true]")).not.toBeNull();
  expect(within(of("alert")).queryByRole("link")).toBeNull();
  expect(of("alert").textContent).toContain("only if a step fails");
});

it("a way that was not gone is dashed, and screen readers are spared the lines", async () => {
  const { graph } = await show(
    [
      { id: "a", title: "fetch", role: "Step 1" },
      { id: "b", title: "convert", role: "Step 2" },
      { id: "c", title: "alert", role: "On failure", branch: true },
    ],
    [
      { from: "a", to: "b" },
      { from: "a", to: "c", open: true },
      { from: "a", to: "missing" },
    ],
  );
  const lines = graph.querySelector("svg[aria-hidden]");
  expect(lines?.querySelectorAll("g")).toHaveLength(2);
  expect(lines?.querySelectorAll("[stroke-dasharray]")).toHaveLength(1);
});
