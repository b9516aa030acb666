// @vitest-environment happy-dom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { reads } from "~/data/queries";
import type { JobSearch } from "~/lib/job-search";
import { newClient, showAt } from "~/testing/page";
import { Filters } from "./filters";

afterEach(cleanup);

const scope = { tenant: "acme", namespace: "production" };

async function show(search: JobSearch) {
  const client = newClient();
  client.setQueryData(reads.queues(scope).queryKey, []);
  const onChange = vi.fn();
  await showAt(
    "/acme/production/jobs",
    <Filters scope={scope} search={search} onChange={onChange} onClear={vi.fn()} />,
    client,
  );
  return onChange;
}

it("states are added and taken away; without any there is no such filter", async () => {
  const onChange = await show({ state: ["dead"] });
  const dead = screen.getByRole("button", { name: "Dead", pressed: true });
  fireEvent.click(screen.getByRole("button", { name: "Active", pressed: false }));
  expect(onChange).toHaveBeenLastCalledWith({ state: ["active", "dead"] });
  fireEvent.click(dead);
  expect(onChange).toHaveBeenLastCalledWith({ state: undefined });
});

it("a tag is looked for as key:value and as nothing else", async () => {
  const onChange = await show({});
  const tag = screen.getByLabelText("Tag, as key:value");
  const enter = (value: string) => {
    fireEvent.change(tag, { target: { value } });
    fireEvent.submit(tag);
  };
  enter("acme");
  expect(onChange).not.toHaveBeenCalled();
  expect(screen.getByRole("alert").textContent).toContain("key:value");
  enter(" customer:acme ");
  expect(onChange).toHaveBeenCalledExactlyOnceWith({ tag: "customer:acme" });
  expect(screen.queryByRole("alert")).toBeNull();
});

it("a span of time takes the place of both bounds", async () => {
  const onChange = await show({ after: "2026-03-01T12:00:00Z" });
  fireEvent.change(screen.getByLabelText("Created"), { target: { value: "1h" } });
  expect(onChange).toHaveBeenLastCalledWith({ within: "1h", after: undefined, before: undefined });
  fireEvent.click(screen.getByRole("button", { name: "Remove filter after" }));
  expect(onChange).toHaveBeenLastCalledWith({ after: undefined });
});
