// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { afterEach, expect, it, vi } from "vitest";
import Palette, { type Command } from "./palette";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(cleanup);

interface OpenedProps {
  /** What happened, in order. */
  log: string[];
  onText: (text: string) => Command[];
}

function Opened({ log, onText }: OpenedProps) {
  const [query, onQuery] = useState("");
  const items = ["Queues", "Jobs", "Audit log"].map((label) => ({
    value: label,
    label,
    run: () => void log.push(label),
  }));
  return (
    <Palette
      onOpenChange={(open) => void log.push(open ? "open" : "closed")}
      groups={[{ value: "Go to", items }]}
      onText={onText}
      query={query}
      onQuery={onQuery}
    />
  );
}

function show(onText: OpenedProps["onText"] = () => []) {
  const log: string[] = [];
  render(<Opened log={log} onText={onText} />);
  return { log, input: screen.getByRole("combobox", { name: "Search, or paste a job ID" }) };
}

const offered = () => screen.queryAllByRole("option").map((option) => option.textContent);
const type = (input: HTMLElement, value: string) => fireEvent.change(input, { target: { value } });

it("offers everything, then what matches; a choice closes it before it acts", async () => {
  const { log, input } = show();
  await waitFor(() => expect(offered()).toEqual(["Queues", "Jobs", "Audit log"]));
  type(input, "aud");
  await waitFor(() => expect(offered()).toEqual(["Audit log"]));
  fireEvent.click(screen.getByRole("option"));
  expect(log).toEqual(["closed", "Audit log"]);
});

it("Enter takes the first match", async () => {
  const { log, input } = show();
  type(input, "jo");
  await waitFor(() => expect(offered()).toEqual(["Jobs"]));
  fireEvent.keyDown(input, { key: "Enter" });
  await waitFor(() => expect(log).toEqual(["closed", "Jobs"]));
});

it("text that names no command is looked for, after the commands", async () => {
  const asked = vi.fn((text: string) => [{ value: "find", label: `Open job ${text}`, run: () => {} }]);
  const { input } = show(asked);
  await waitFor(() => expect(offered()).toHaveLength(3));
  expect(asked).not.toHaveBeenCalled();
  type(input, " jo ");
  await waitFor(() => expect(offered()).toEqual(["Jobs", "Open job jo"]));
  expect(asked).toHaveBeenLastCalledWith("jo");
});

it("says what to do when nothing is found", async () => {
  const { input } = show();
  type(input, "zzz");
  expect(await screen.findByText("No results. Paste a full job ID to open it.")).toBeTruthy();
  expect(offered()).toEqual([]);
});
