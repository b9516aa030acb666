// @vitest-environment happy-dom
import { create } from "@bufbuild/protobuf";
import { cleanup, configure, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { control } from "~/data/control";
import { reads } from "~/data/queries";
import { tokens } from "~/data/token";
import { TenantAccessSchema } from "~/gen/corvo/cloud/v1/auth_pb";
import { NamespaceSchema } from "~/gen/corvo/cloud/v1/tenant_pb";
import { newClient, showAt } from "~/testing/page";
import { AccountMenu, NamespaceMenu, TenantMenu } from "./menus";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const late = { trigger: <button type="button">Menu</button>, defaultOpen: true };
const links = () =>
  screen
    .getAllByRole("menuitem")
    .map((item) => [item.textContent, item.getAttribute("href"), item.getAttribute("aria-current")]);

it("lists one's tenants with one's role in each, and marks this one", async () => {
  const tenants = [
    create(TenantAccessSchema, { tenantId: "ten_1", tenant: "acme", roles: ["owner"] }),
    create(TenantAccessSchema, { tenantId: "ten_2", tenant: "globex", roles: ["viewer"] }),
  ];
  await showAt("/", <TenantMenu tenant="globex" tenants={tenants} {...late} />);
  expect(await screen.findByRole("menu")).toBeTruthy();
  expect(links()).toEqual([
    ["acacme Owner", "/acme", null],
    ["glglobex Viewer", "/globex", "true"],
    ["New tenant", "/signup", null],
  ]);
});

it("lists the namespaces of the tenant, and marks this one", async () => {
  const client = newClient();
  client.setQueryData(
    reads.namespaces("acme").queryKey,
    ["production", "staging"].map((name) => create(NamespaceSchema, { id: `ns_${name}`, name })),
  );
  await showAt("/", <NamespaceMenu tenant="acme" namespace="staging" {...late} />, client);
  expect(await screen.findByRole("menu")).toBeTruthy();
  expect(links()).toEqual([
    ["production", "/acme/production", null],
    ["staging", "/acme/staging", "true"],
    ["Manage namespaces", "/acme/settings/namespaces", null],
  ]);
});

async function showAccount() {
  const client = newClient();
  client.setQueryData(["secret"], "payload");
  const onShortcuts = vi.fn();
  await showAt(
    "/acme",
    <AccountMenu {...{ email: "ada@example.com", role: "Owner", onShortcuts, ...late }} />,
    client,
  );
  await screen.findByRole("menu");
  return { client, onShortcuts };
}

it("signing out forgets the tokens and everything that was read", async () => {
  const { client } = await showAccount();
  vi.spyOn(control.auth, "logout").mockResolvedValue({} as never);
  const clear = vi.spyOn(tokens, "clear");
  fireEvent.click(screen.getByRole("menuitem", { name: "Sign out" }));
  await waitFor(() => expect(client.getQueryData(["secret"])).toBeUndefined());
  expect(clear).toHaveBeenCalledOnce();
});

it("who couldn't be signed out keeps what they see", async () => {
  const { client } = await showAccount();
  const logout = vi.spyOn(control.auth, "logout").mockRejectedValue(new Error("offline"));
  const clear = vi.spyOn(tokens, "clear");
  fireEvent.click(screen.getByRole("menuitem", { name: "Sign out" }));
  await waitFor(() => expect(logout).toHaveBeenCalledOnce());
  await Promise.resolve();
  expect(clear).not.toHaveBeenCalled();
  expect(client.getQueryData(["secret"])).toBe("payload");
});

it("the theme is one of three, and shortcuts are opened from here", async () => {
  const { onShortcuts } = await showAccount();
  expect(screen.getAllByRole("menuitemradio").map((item) => item.textContent)).toEqual([
    "System",
    "Light",
    "Dark",
  ]);
  fireEvent.click(screen.getByRole("menuitemradio", { name: "Dark" }));
  expect(document.documentElement.dataset.theme).toBe("dark");
  fireEvent.click(screen.getByRole("menuitem", { name: /Keyboard shortcuts/ }));
  expect(onShortcuts).toHaveBeenCalledOnce();
});
