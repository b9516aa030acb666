// @vitest-environment happy-dom
import { cleanup, configure, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { showAt } from "~/testing/page";
import BulkDialog from "./bulk-dialog";

const bulk = vi.hoisted(() => ({ startBulk: vi.fn(), followBulk: vi.fn() }));
vi.mock("~/data/bulk", () => bulk);
const said = vi.hoisted(() => ({ toast: vi.fn() }));
vi.mock("~/components/ui/toast", () => said);

const scope = { tenant: "acme", namespace: "production" };

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.clearAllMocks();
  vi.unstubAllGlobals();
});

/** A dialog whose operation ends when `end` is called. */
async function begin() {
  let end = () => {};
  const operation = new Promise((resolve) => {
    end = () => resolve({ affected: 2, errors: 0 });
  });
  bulk.startBulk.mockResolvedValue("blk_1");
  bulk.followBulk.mockReturnValue(operation);
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  const onDone = vi.fn();
  const onClose = vi.fn();
  await showAt(
    "/acme/production/dead",
    <BulkDialog
      scope={scope}
      verb="retry"
      filter={{ queue: "emails" }}
      about={{ text: "boom", queue: "emails" }}
      jobs={2}
      onClose={onClose}
      onDone={onDone}
    />,
  );
  fireEvent.click(await screen.findByRole("button", { name: "Retry jobs" }));
  await screen.findByText(/You can close this dialog/);
  return { onDone, onClose, end };
}

it("closes when the operation ends, and the page goes on", async () => {
  const { onDone, onClose, end } = await begin();
  end();
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(onDone).toHaveBeenCalledOnce();
});

it("only says that the operation has ended to somebody who has left the page", async () => {
  const { onDone, onClose, end } = await begin();
  cleanup();
  end();
  await waitFor(() => expect(said.toast).toHaveBeenCalledExactlyOnceWith({ title: "Retried 2 jobs" }));
  expect(onDone).not.toHaveBeenCalled();
  expect(onClose).not.toHaveBeenCalled();
});
