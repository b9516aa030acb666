// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Toaster, toast } from "./toast";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(cleanup);

it("shows what was said before the page of toasts was loaded, and what is said after", async () => {
  render(<Toaster />);
  const onClick = vi.fn();
  toast({ title: "Queue paused", action: { label: "Undo", onClick } });
  expect(await screen.findByText("Queue paused")).toBeTruthy();
  expect(
    screen.getByRole("button", { name: "Dismiss" }),
    "Tab reaches it, so that a screen reader must know it",
  ).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(onClick).toHaveBeenCalledOnce();

  toast({ kind: "error", title: "Couldn't pause", description: "Your role doesn't allow this." });
  expect(await screen.findByText("Your role doesn't allow this.")).toBeTruthy();
  for (const button of screen.getAllByRole("button", { name: "Dismiss" })) fireEvent.click(button);
  await waitFor(() => expect(screen.queryByText("Couldn't pause")).toBeNull());
});
