// @vitest-environment happy-dom
import { create } from "@bufbuild/protobuf";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import type { Access } from "~/data/access";
import { type Trust, TrustProvider, TrustSchema } from "~/gen/corvo/cloud/v1/exchange_pb";
import { ServiceAccountSchema } from "~/gen/corvo/cloud/v1/principal_pb";
import TrustDialog from "./trust-dialog";

const trusts = vi.hoisted(() => ({ createTrust: vi.fn(), updateTrust: vi.fn() }));
vi.mock("~/data/principals", () => ({ principals: { trusts } }));
vi.mock("~/data/queries", () => ({
  reads: {
    namespaces: () => ({ queryKey: ["namespaces"], queryFn: () => [{ id: "ns_1", name: "production" }] }),
  },
}));

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.clearAllMocks();
});

const account = create(ServiceAccountSchema, { id: "sa_1", name: "deploy" });
const web = create(TrustSchema, {
  id: "trust_1",
  name: "web",
  etag: "e1",
  provider: TrustProvider.GITHUB,
  conditions: [{ claim: "repository", values: ["acme/web"] }],
  keyLifeSeconds: 1800n,
});

function open(trust?: Trust) {
  const onSaved = vi.fn();
  render(
    <QueryClientProvider client={new QueryClient()}>
      <TrustDialog
        access={{ tenant: "acme" } as Access}
        account={account}
        trust={trust}
        onClose={vi.fn()}
        onSaved={onSaved}
      />
    </QueryClientProvider>,
  );
  return onSaved;
}

const type = (label: string, value: string) =>
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

it("makes a trust of the service account", async () => {
  trusts.createTrust.mockResolvedValue({ trust: web });
  const onSaved = open();
  type("Name", "web");
  press("Create trust");
  expect(trusts.createTrust).not.toHaveBeenCalled();
  type("Repository", "acme/web");
  press("Create trust");
  await waitFor(() => expect(onSaved).toHaveBeenCalledExactlyOnceWith(web));
  expect(trusts.createTrust).toHaveBeenCalledWith(
    expect.objectContaining({
      serviceAccount: "sa_1",
      provider: TrustProvider.GITHUB,
      conditions: [{ claim: "repository", values: ["acme/web"] }],
    }),
  );
});

it("changes only what was changed, of the version that was read", async () => {
  trusts.updateTrust.mockResolvedValue({ trust: web });
  const onSaved = open(web);
  press("Save trust");
  expect(trusts.updateTrust).not.toHaveBeenCalled();
  type("More conditions", "ref=refs/heads/main");
  press("Save trust");
  await waitFor(() => expect(onSaved).toHaveBeenCalledOnce());
  expect(trusts.updateTrust).toHaveBeenCalledWith(
    expect.objectContaining({
      trustId: "trust_1",
      etag: "e1",
      conditions: [
        { claim: "repository", values: ["acme/web"] },
        { claim: "ref", values: ["refs/heads/main"] },
      ],
      keyLifeSeconds: 1800n,
      updateMask: { paths: ["conditions"] },
    }),
  );
});

it("asks for nothing that stays once a trust is made", () => {
  open(web);
  for (const label of ["Tokens of", "Issuer"]) expect(screen.queryByLabelText(label)).toBeNull();
});
