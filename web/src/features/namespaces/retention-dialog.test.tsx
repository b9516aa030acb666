// @vitest-environment happy-dom
import { create } from "@bufbuild/protobuf";
import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { NamespaceSchema } from "~/gen/corvo/cloud/v1/tenant_pb";
import { newClient } from "~/testing/page";
import RetentionDialog from "./retention-dialog";

const calls = vi.hoisted(() => {
  // A reader in Germany, whose numbers are grouped by points.
  const format = Intl.NumberFormat;
  vi.spyOn(Intl, "NumberFormat").mockImplementation(function german(_, options) {
    return new format("de-DE", options);
  });
  return { updateNamespace: vi.fn() };
});
vi.mock("@connectrpc/connect", async (original) => ({
  ...(await original<typeof import("@connectrpc/connect")>()),
  createClient: () => calls,
}));

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.clearAllMocks();
});

const MB = 2n ** 20n;
const production = create(NamespaceSchema, {
  id: "ns_1",
  name: "production",
  etag: "e1",
  retention: { finishedMax: 10_000n, eventsBytesMax: 2048n * MB + 1n },
});

function open() {
  const onClose = vi.fn();
  render(
    <QueryClientProvider client={newClient()}>
      <RetentionDialog tenant="acme" namespace={production} onClose={onClose} />
    </QueryClientProvider>,
  );
  return onClose;
}

const type = (label: string, value: string) =>
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
const save = () => fireEvent.click(screen.getByRole("button", { name: "Save" }));
const sent = () => calls.updateNamespace.mock.calls[0]?.[0].retention;

it("sends what was not touched as it was, however the reader writes numbers", async () => {
  calls.updateNamespace.mockResolvedValue({});
  const onClose = open();
  save();
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(sent()).toMatchObject({ finishedMax: 10_000n, eventsBytesMax: 2048n * MB + 1n });
});

it("sends no number that another reader would read as another one", async () => {
  calls.updateNamespace.mockResolvedValue({});
  const onClose = open();
  type("Size of events", "3,000");
  type("Finished jobs per queue", "20.000");
  save();
  expect(screen.getByText(/Enter a whole number above 0/)).toBeTruthy();
  expect(calls.updateNamespace).not.toHaveBeenCalled();
  type("Finished jobs per queue", "20000");
  save();
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(sent()).toMatchObject({ finishedMax: 20_000n, eventsBytesMax: 3000n * MB });
});
