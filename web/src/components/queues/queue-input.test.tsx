// @vitest-environment happy-dom
import { cleanup, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import type { Queue } from "~/data/jobs-api";
import { reads } from "~/data/queries";
import { newClient, showAt } from "~/testing/page";
import { QueueInput, useTarget } from "./queue-input";

afterEach(cleanup);

const scope = { tenant: "acme", namespace: "production" };

function Target({ name }: { name: string }) {
  return <output>{JSON.stringify(useTarget(scope, name, "emails", "It is there already."))}</output>;
}

async function show(name: string) {
  const client = newClient();
  client.setQueryData(reads.queues(scope).queryKey, [{ name: "emails" }, { name: "invoices" }] as Queue[]);
  await showAt(
    "/acme/production",
    <>
      <QueueInput aria-label="Queue" scope={scope} except="emails" value={name} onChange={() => {}} />
      <Target name={name} />
    </>,
    client,
  );
  return JSON.parse(screen.getByRole("status").textContent ?? "") as ReturnType<typeof useTarget>;
}

it.each([
  ["nothing", "", { blocked: "Enter a queue." }],
  ["where the jobs are", "emails", { blocked: "It is there already." }],
  ["another queue", "invoices", {}],
  ["a new one", "reports", { hint: "This creates the queue reports." }],
])("moving to %s", async (_, name, said) => {
  expect(await show(name)).toEqual(said);
});

it("a name that no queue can have is a problem, and blocks", async () => {
  const { problem, blocked, hint } = await show("-reports");
  expect(problem).toMatch(/^Start with a letter or digit/);
  expect(blocked).toBe(problem);
  expect(hint).toBeUndefined();
});

it("offers the queues that are there, without the one that is left", async () => {
  await show("");
  const list = screen.getByLabelText("Queue").getAttribute("list") ?? "";
  const offered = [...(document.getElementById(list)?.querySelectorAll("option") ?? [])];
  expect(offered.map((option) => option.value)).toEqual(["invoices"]);
});
