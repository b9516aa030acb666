// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Combobox, type ComboboxProps } from "./combobox";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(cleanup);

const queues = ["emails", "images", "invoices"].map((value) => ({ value, label: value }));

function show(more: Partial<ComboboxProps> = {}) {
  const onChange = vi.fn();
  render(<Combobox label="Queue" options={queues} value={null} onChange={onChange} {...more} />);
  return { onChange, input: screen.getByRole<HTMLInputElement>("combobox", { name: "Queue" }) };
}

function type(input: HTMLInputElement, value: string) {
  input.focus();
  // Without a kind of input it would be taken for what a browser filled in.
  fireEvent.input(input, { target: { value }, inputType: "insertText" });
}

const offered = () => screen.getAllByRole("option").map((option) => option.textContent);

it("typing narrows what is offered, and the one that is clicked is chosen", async () => {
  const { onChange, input } = show();
  type(input, "i");
  await waitFor(() => expect(offered()).toEqual(["emails", "images", "invoices"]));
  type(input, "inv");
  await waitFor(() => expect(offered()).toEqual(["invoices"]));
  fireEvent.click(screen.getByRole("option"));
  expect(onChange).toHaveBeenCalledExactlyOnceWith("invoices");
});

it("says so when nothing matches", async () => {
  const { input } = show({ empty: "No such queue." });
  type(input, "zz");
  expect(await screen.findByText("No such queue.")).toBeTruthy();
  expect(screen.queryByRole("option")).toBeNull();
});

it("shows a value that is not among the options, and takes it away", () => {
  const { onChange, input } = show({ value: "deleted-queue" });
  expect(input.value).toBe("deleted-queue");
  fireEvent.click(screen.getByRole("button", { name: "Clear" }));
  expect(onChange).toHaveBeenCalledExactlyOnceWith(null);
});

it("what must have a value can't be emptied", () => {
  show({ value: "emails", clearable: false });
  expect(screen.queryByRole("button", { name: "Clear" })).toBeNull();
});

it("of thousands it draws a hundred, and says how to find the others", async () => {
  const many = Array.from({ length: 2_500 }, (_, at) => ({ value: `q${at}`, label: `q${at}` }));
  const { input } = show({ options: many });
  type(input, "q");
  expect(await screen.findByText("Type to search all 2,500")).toBeTruthy();
  expect(offered()).toHaveLength(100);
});
