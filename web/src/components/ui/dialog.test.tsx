// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { ConfirmDialog, type ConfirmDialogProps, Dialog } from "./dialog";

// A busy machine may need longer for what is awaited than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(cleanup);

function Opener({ dismissible = true }: { dismissible?: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Open
      </button>
      <Dialog
        open={open}
        onOpenChange={setOpen}
        title="Your key"
        description="Shown once."
        dismissible={dismissible}
      >
        <input aria-label="Name" autoFocus />
      </Dialog>
    </>
  );
}

function open(dismissible: boolean) {
  render(<Opener dismissible={dismissible} />);
  const button = screen.getByRole("button", { name: "Open" });
  button.focus();
  fireEvent.click(button);
  return button;
}

it("is named and described, closes on Escape, and gives the focus back", async () => {
  const button = open(true);
  const dialog = await screen.findByRole("dialog", { name: "Your key", description: "Shown once." });
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText("Name")));
  fireEvent.keyDown(dialog, { key: "Escape" });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await waitFor(() => expect(document.activeElement).toBe(button));
});

it("what is shown once stays until its own button closes it", async () => {
  open(false);
  const dialog = await screen.findByRole("dialog");
  expect(screen.queryByRole("button", { name: "Close" })).toBeNull();
  fireEvent.keyDown(dialog, { key: "Escape" });
  expect(screen.getByRole("dialog")).toBe(dialog);
});

function confirmation(more: Partial<ConfirmDialogProps> = {}) {
  const props = { onConfirm: vi.fn(() => Promise.resolve()), onOpenChange: vi.fn(), ...more };
  render(
    <ConfirmDialog open title="Delete sandbox?" confirmLabel="Delete" typeToConfirm="sandbox" {...props}>
      It can't be undone.
    </ConfirmDialog>,
  );
  return props;
}

const confirm = () => fireEvent.click(screen.getByRole("button", { name: "Delete" }));
const type = (value: string) => fireEvent.change(screen.getByRole("textbox"), { target: { value } });

it("does nothing until the name is typed", async () => {
  const { onConfirm, onOpenChange } = confirmation();
  confirm();
  type("sandbo");
  confirm();
  expect(onConfirm).not.toHaveBeenCalled();
  type("sandbox");
  confirm();
  await waitFor(() => expect(onOpenChange).toHaveBeenCalledWith(false));
  expect(onConfirm).toHaveBeenCalledOnce();
});

it("stays open and says why when the action is refused", async () => {
  const { onOpenChange } = confirmation({ onConfirm: () => Promise.reject(new Error("It holds jobs.")) });
  type("sandbox");
  confirm();
  expect((await screen.findByRole("alert")).textContent).toBe("It holds jobs.");
  expect(onOpenChange).not.toHaveBeenCalled();
});
