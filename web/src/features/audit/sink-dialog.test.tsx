// @vitest-environment happy-dom
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { AuditFormat, type AuditSink, AuditSinkSchema } from "~/gen/corvo/cloud/v1/audit_pb";
import SinkDialog from "./sink-dialog";

const audit = vi.hoisted(() => ({ createAuditSink: vi.fn(), updateAuditSink: vi.fn() }));
vi.mock("~/data/admin", () => ({ admin: { audit } }));

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.clearAllMocks();
});

const siem = create(AuditSinkSchema, {
  id: "snk_1",
  name: "SIEM",
  etag: "e1",
  format: AuditFormat.NATIVE,
  target: { case: "https", value: { url: "https://siem.test/audit" } },
});

function open(sink?: AuditSink) {
  const onClose = vi.fn();
  render(
    <QueryClientProvider client={new QueryClient()}>
      <SinkDialog tenant="acme" sink={sink} onClose={onClose} />
    </QueryClientProvider>,
  );
  return onClose;
}

const field = (label: string) => screen.getByLabelText<HTMLInputElement>(label);
const type = (label: string, value: string) => fireEvent.change(field(label), { target: { value } });
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

it("makes a sink once name, URL and secret are there, and hides what is typed as a secret", async () => {
  audit.createAuditSink.mockResolvedValue({ sink: siem });
  const onClose = open();
  type("Name", "SIEM");
  press("Create sink");
  expect(audit.createAuditSink).not.toHaveBeenCalled();
  type("URL", " https://siem.test/audit ");
  type("Signing secret", "sixteen characters");
  for (const label of ["Signing secret", "Authorization header"]) expect(field(label).type).toBe("password");
  press("Create sink");
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(audit.createAuditSink).toHaveBeenCalledWith(
    expect.objectContaining({
      tenant: "acme",
      name: "SIEM",
      fromBeginning: false,
      target: {
        case: "https",
        value: { url: "https://siem.test/audit", signingSecret: "sixteen characters", authorization: "" },
      },
    }),
  );
});

it("changes only what was changed, of the version that was read", async () => {
  audit.updateAuditSink.mockResolvedValue({ sink: siem });
  const onClose = open(siem);
  expect(field("Signing secret").value).toBe("");
  type("Name", "Other");
  press("Save sink");
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(audit.updateAuditSink).toHaveBeenCalledWith(
    expect.objectContaining({ sinkId: "snk_1", etag: "e1", name: "Other", updateMask: { paths: ["name"] } }),
  );
});

it("stays open and says why the service refuses", async () => {
  audit.updateAuditSink.mockRejectedValue(new ConnectError("somebody else changed it", Code.Aborted));
  const onClose = open(siem);
  type("Name", "Other");
  press("Save sink");
  expect((await screen.findByRole("alert")).textContent).toContain("omebody else changed it");
  expect(onClose).not.toHaveBeenCalled();
});
