import { expect, test } from "vitest";
import { oidcPresets } from "./presets";

test("every provider says where the redirect URI goes, and how its issuer looks", () => {
  expect(oidcPresets.map(({ value }) => value)).toEqual([
    "",
    "okta",
    "entra",
    "google",
    "keycloak",
    "jumpcloud",
  ]);
  for (const preset of oidcPresets) {
    expect(preset.steps.join(" "), preset.label).toMatch(/redirect URI below/);
    expect(new URL(preset.issuer).protocol, preset.label).toBe("https:");
  }
});

test("what gives no role, or everybody one, is said", () => {
  const google = oidcPresets.find(({ value }) => value === "google");
  expect(google?.here).toMatch(/no groups/);
  expect(google?.steps.join(" ")).toMatch(/Internal/);
});
