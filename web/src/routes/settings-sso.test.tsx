// @vitest-environment happy-dom
import { act, cleanup, configure, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { openApp } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const okta = {
  id: "sso_1",
  name: "Okta",
  type: "SSO_TYPE_OIDC",
  issuer: "https://okta.test",
  clientId: "c",
  groupsClaim: "groups",
  defaultRole: "viewer",
  groupMappings: [{ group: "contractors", role: "admin" }],
  etag: "e1",
};

/** The page of a connection that others may change. */
async function open() {
  let connection: object = okta;
  const { calls, client } = openApp("/acme/settings/sso", ({ path }) =>
    path === "ListSsoConnections"
      ? { connections: [connection] }
      : path === "UpdateSsoConnection"
        ? { connection }
        : undefined,
  );
  const name = await screen.findByLabelText<HTMLInputElement>(/^Name/);
  return {
    name,
    type: (value: string) => fireEvent.change(name, { target: { value } }),
    /** Somebody else does this, and the page reads it. */
    changed: async (change: object) => {
      connection = { ...okta, ...change };
      await act(() => client.invalidateQueries({ queryKey: ["control", "acme", "sso"] }));
      // The page is drawn in the next turn.
      await act(() => new Promise((resolve) => setTimeout(resolve)));
    },
    saved: async () => {
      fireEvent.click(screen.getByRole("button", { name: "Save changes" }));
      const update = () => calls.filter(({ path }) => path === "UpdateSsoConnection").at(-1)?.body;
      await waitFor(() => expect(update()).toBeTruthy());
      return update();
    },
  };
}

it("a change sends what it changes alone, for the connection as its form began", async () => {
  const { type, changed, saved } = await open();
  type("Okta EU");
  await changed({ groupMappings: [], etag: "e2" });
  expect(await saved()).toMatchObject({ etag: "e1", updateMask: "name" });
});

it("a form that nobody touched shows what others change", async () => {
  const { name, type, changed, saved } = await open();
  await changed({ name: "Okta US", groupMappings: [], etag: "e2" });
  await waitFor(() => expect(name.value).toBe("Okta US"));
  expect(screen.queryByDisplayValue("contractors")).toBeNull();
  type("Okta EU");
  expect(await saved()).toMatchObject({ etag: "e2", updateMask: "name" });
});

it("what the form doesn't show, such as whether it is on, may change meanwhile", async () => {
  const { type, changed, saved } = await open();
  type("Okta EU");
  await changed({ enabled: true, etag: "e2" });
  expect(await saved()).toMatchObject({ etag: "e2", updateMask: "name" });
});
