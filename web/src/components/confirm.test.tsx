// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import Confirm, { type ConfirmProps } from "./confirm";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(cleanup);

function confirmation(more: Partial<ConfirmProps> = {}) {
  const props = { onConfirm: vi.fn(() => Promise.resolve()), onClose: vi.fn(), ...more };
  render(
    <Confirm title="Delete sandbox?" confirmLabel="Delete" typeToConfirm="sandbox" {...props}>
      It can't be undone.
    </Confirm>,
  );
  return props;
}

const confirm = () => fireEvent.click(screen.getByRole("button", { name: "Delete" }));
const type = (value: string) => fireEvent.change(screen.getByRole("textbox"), { target: { value } });

it("does nothing until the name is typed", async () => {
  const { onConfirm, onClose } = confirmation();
  confirm();
  type("sandbo");
  confirm();
  expect(onConfirm).not.toHaveBeenCalled();
  type("sandbox");
  confirm();
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(onConfirm).toHaveBeenCalledOnce();
});

it("stays open and says why when the action is refused", async () => {
  const { onClose } = confirmation({ onConfirm: () => Promise.reject(new Error("It holds jobs.")) });
  type("sandbox");
  confirm();
  expect((await screen.findByRole("alert")).textContent).toBe("It holds jobs.");
  expect(onClose).not.toHaveBeenCalled();
});
