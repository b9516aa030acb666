// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { Dialog, FormDialog, type FormDialogProps } from "./dialog";

// On a busy machine it may take longer than a second.
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

function form(more: Partial<FormDialogProps> = {}) {
  const props = { onSubmit: vi.fn(), onClose: vi.fn(), ...more };
  render(
    <FormDialog title="New queue" submit="Create" busy={false} {...props}>
      <input aria-label="Name" />
    </FormDialog>,
  );
  return props;
}

const enter = () => fireEvent.submit(screen.getByLabelText("Name"));

it("a form is sent by its button and by Enter, and closed by the other button", () => {
  const { onSubmit, onClose } = form();
  fireEvent.click(screen.getByRole("button", { name: "Create" }));
  expect(onSubmit).toHaveBeenCalledTimes(1);
  enter();
  expect(onSubmit).toHaveBeenCalledTimes(2);
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(onClose).toHaveBeenCalledOnce();
});

it.each([{ busy: true }, { blockedBecause: "Enter a name." }])("a form is not sent while %o", (more) => {
  const { onSubmit } = form(more);
  fireEvent.click(screen.getByRole("button", { name: "Create" }));
  enter();
  expect(onSubmit).not.toHaveBeenCalled();
});

it("a refusal that is about no field is announced", () => {
  form({ failure: "It exists." });
  expect(screen.getByRole("alert").textContent).toBe("It exists.");
});
