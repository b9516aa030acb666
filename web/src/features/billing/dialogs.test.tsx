// @vitest-environment happy-dom
import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { ChangePlanResponseSchema, PlanSchema, SubscriptionSchema } from "~/gen/corvo/cloud/v1/plan_pb";
import { RefusalSchema } from "~/gen/corvo/cloud/v1/refusal_pb";
import { SpendLimitSchema } from "~/gen/corvo/cloud/v1/usage_pb";
import PlanDialog from "./plan-dialog";
import { SpendCard } from "./spend-card";
import SpendDialog from "./spend-dialog";

const calls = vi.hoisted(() => ({
  changePlan: vi.fn(),
  getBilling: vi.fn(),
  getSpendLimit: vi.fn(),
  setSpendLimit: vi.fn(),
  startCheckout: vi.fn(),
}));
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

function show(dialog: ReactNode) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(<QueryClientProvider client={client}>{dialog}</QueryClientProvider>);
  return client;
}
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

const free = create(PlanSchema, { name: "free", title: "Free", currency: "usd", selfServe: true });
const team = create(PlanSchema, { ...free, name: "team", title: "Team", baseAmount: 4900n });
const subscription = create(SubscriptionSchema, { plan: team, state: "active", etag: "e1" });

function openPlans() {
  const onClose = vi.fn();
  show(<PlanDialog tenant="acme" subscription={subscription} plans={[free, team]} onClose={onClose} />);
  return onClose;
}

it("a plan that is too small can't be chosen, and each thing that won't fit is named", async () => {
  const problem = "namespaces: 80 in use, the plan free allows 60";
  calls.changePlan.mockRejectedValue(
    new ConnectError("too small", Code.FailedPrecondition, undefined, [
      {
        desc: RefusalSchema,
        value: { reason: "PLAN_TOO_SMALL", fields: [{ name: "namespaces_max", problem }] },
      },
    ]),
  );
  openPlans();
  expect(await screen.findByText(`N${problem.slice(1)}.`)).toBeTruthy();
  expect(screen.getByRole("button", { name: "Change plan" }).getAttribute("aria-disabled")).toBe("true");
  press("Change plan");
  expect(calls.changePlan.mock.calls.every(([request]) => request.validateOnly)).toBe(true);
});

it("a change is checked before it is made, and says that it waits", async () => {
  calls.changePlan.mockResolvedValue(
    create(ChangePlanResponseSchema, {
      subscription: { ...subscription, nextPlan: "free" },
      effectiveAt: timestampFromDate(new Date("2026-12-01T00:00:00Z")),
    }),
  );
  const onClose = openPlans();
  expect(await screen.findByText(/The plan changes on/)).toBeTruthy();
  expect(calls.changePlan).toHaveBeenCalledExactlyOnceWith({
    tenant: "acme",
    plan: "free",
    validateOnly: true,
  });
  press("Change plan");
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(calls.changePlan).toHaveBeenCalledWith({ tenant: "acme", plan: "free", etag: "e1" });
});

it("a plan that has to be paid for leads to the page where it is", async () => {
  // Not at once: while the first check runs, the way to the page isn't shown.
  calls.changePlan.mockImplementation(async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    throw new ConnectError("no payment method", Code.FailedPrecondition, undefined, [
      { desc: RefusalSchema, value: { reason: "PAYMENT_REQUIRED" } },
    ]);
  });
  calls.getBilling.mockResolvedValue({ billing: { payments: true } });
  calls.startCheckout.mockResolvedValue({ url: "https://pay.test/1" });
  const assign = vi.spyOn(window.location, "assign").mockImplementation(() => {});
  openPlans();
  const button = await screen.findByRole("button", { name: "Go to checkout" });
  fireEvent.click(button);
  // The check is repeated, and takes away nothing that somebody may be about to press.
  await waitFor(() => expect(calls.changePlan).toHaveBeenCalledTimes(2));
  expect(screen.getByRole("button", { name: "Go to checkout" })).toBe(button);
  await waitFor(() => expect(assign).toHaveBeenCalledExactlyOnceWith("https://pay.test/1"));
  expect(calls.startCheckout).toHaveBeenCalledExactlyOnceWith({ tenant: "acme", plan: "free" });
});

it("a spend limit is sent in the currency's smallest unit, and nothing else is", async () => {
  calls.setSpendLimit.mockResolvedValue({});
  const onClose = vi.fn();
  const limit = create(SpendLimitSchema, { currency: "usd", action: "alert", etag: "e2" });
  show(<SpendDialog tenant="acme" limit={limit} onClose={onClose} />);
  const type = (label: string, value: string) =>
    fireEvent.change(screen.getByLabelText(label), { target: { value } });
  type("Amount per month", "12.345");
  press("Set spend limit");
  expect(calls.setSpendLimit).not.toHaveBeenCalled();
  type("Amount per month", "1,200.05");
  type("Emails at", "100, 50");
  type("When the limit is reached", "reject");
  press("Set spend limit");
  await waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(calls.setSpendLimit).toHaveBeenCalledWith({
    tenant: "acme",
    limit: { amount: 120005n, currency: "usd", action: "reject", alertPercents: [50, 100], etag: "e2" },
  });
});

it.each([
  ["Edit spend limit", "Save spend limit"],
  ["Remove", "Remove spend limit"],
])(
  "what was asked before somebody else changed the limit (%s) is about the limit as it was",
  async (ask, confirm) => {
    const limit = create(SpendLimitSchema, { currency: "usd", amount: 20000n, action: "alert", etag: "e1" });
    calls.getSpendLimit.mockResolvedValue({ limit });
    calls.setSpendLimit.mockResolvedValue({});
    const client = show(<SpendCard tenant="acme" blocked={undefined} />);
    fireEvent.click(await screen.findByRole("button", { name: ask }));
    await screen.findByRole("dialog");
    calls.getSpendLimit.mockResolvedValue({ limit: { ...limit, amount: 90000n, etag: "e2" } });
    await act(() => client.invalidateQueries());
    await screen.findByText(/of \$900\.00 spent/);
    press(confirm);
    await waitFor(() => expect(calls.setSpendLimit).toHaveBeenCalledOnce());
    expect(calls.setSpendLimit.mock.calls[0]?.[0].limit.etag).toBe("e1");
  },
);
