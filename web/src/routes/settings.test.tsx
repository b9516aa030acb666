// @vitest-environment happy-dom
import { act, cleanup, configure, fireEvent, screen } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openApp, refused } from "~/testing/app";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 20_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const press = async (name: string) => fireEvent.click(await screen.findByRole("button", { name }));

interface Opened {
  url: string;
  answers: Record<string, unknown>;
  open: () => Promise<unknown>;
  stays: () => Promise<unknown>;
}

const pages: Record<string, Opened> = {
  "a token of directory sync, shown once": {
    url: "/acme/settings/directory",
    answers: {
      ListSsoConnections: { connections: [{ id: "sso_1", name: "Okta" }] },
      GetDirectorySync: { sync: { endpointUrl: "https://corvo.test/scim" } },
      ListScimTokens: { tokens: [] },
      CreateScimToken: { secret: "corvo_scim_once" },
    },
    open: async () => {
      await press("Turn on");
      await press("Create token");
    },
    stays: () => screen.findByText("corvo_scim_once"),
  },
  "break-glass codes, shown once": {
    url: "/acme/settings/policy",
    answers: {
      GetSignInPolicy: { policy: { etag: "e1" } },
      CreateBreakGlassCodes: { codes: ["seven-ravens"] },
    },
    open: () => press("Create codes"),
    stays: () => screen.findByText("seven-ravens"),
  },
  "a sink that is being made": {
    url: "/acme/settings/audit",
    answers: { ListAuditEvents: { events: [] }, ListAuditSinks: { sinks: [] } },
    open: () => press("New sink"),
    stays: () => screen.findByRole("dialog"),
  },
  "what was typed about a connection": {
    url: "/acme/settings/sso",
    answers: { ListSsoConnections: { connections: [{ id: "sso_1", name: "Okta", type: "SSO_TYPE_OIDC" }] } },
    open: async () =>
      fireEvent.change(await screen.findByLabelText(/^Name/), { target: { value: "Okta EU" } }),
    stays: () => screen.findByDisplayValue("Okta EU"),
  },
  "a question about a member": {
    url: "/acme/settings/members",
    answers: { ListMembers: { members: [{ userId: "usr_2", email: "bob@acme.test", roles: ["viewer"] }] } },
    open: () => press("Remove bob@acme.test"),
    stays: () => screen.findByRole("dialog"),
  },
};

describe("a read in the background that fails takes nothing away:", () => {
  it.each(Object.entries(pages))("%s", async (_, { url, answers, open, stays }) => {
    let away = false;
    const { client, calls } = openApp(url, ({ path }) =>
      away && /^(List|Get)/.test(path) ? refused() : answers[path],
    );
    await open();
    await stays();
    away = true;
    const before = calls.length;
    await act(() => client.invalidateQueries({ queryKey: ["control"] }));
    await act(() => new Promise((resolve) => setTimeout(resolve)));
    expect(calls.length).toBeGreaterThan(before);
    configure({ asyncUtilTimeout: 100 });
    await stays().finally(() => configure({ asyncUtilTimeout: 20_000 }));
  });
});
