// @vitest-environment happy-dom
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { cleanup, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { SsoConnectionSchema, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { showAt } from "~/testing/page";
import { ProviderCard } from "./test-card";

afterEach(cleanup);

const own = "https://app.corvo.test/auth/oidc/tn_1/callback";
const old = "https://app.corvo.test/auth/oidc/callback";

const show = (more: MessageInitShape<typeof SsoConnectionSchema>) =>
  showAt(
    "/acme/settings/sso",
    <ProviderCard
      connection={create(SsoConnectionSchema, { id: "sso_1", redirectUri: own, ...more })}
      redirectUri={own}
      loginUrl="https://app.corvo.test/auth/oidc/start?tenant=acme"
      type={SsoType.OIDC}
      onType={undefined}
    />,
  );

it("says which redirect URI people still sign in with, and what ends that", async () => {
  await show({ oldRedirectUri: old });
  expect((await screen.findByRole("status")).textContent).toContain(`People still sign in with ${old}`);
  expect(screen.getByText(own)).toBeTruthy();
});

it("says that a staged change must be switched to, too", async () => {
  await show({ oldRedirectUri: old, staged: {} });
  expect((await screen.findByRole("status")).textContent).toContain("succeeds and you switch, everyone");
});

it("says nothing of it once the tenant's own is used", async () => {
  await show({});
  expect(await screen.findByText(own)).toBeTruthy();
  expect(screen.queryByText(/old one/)).toBeNull();
});
