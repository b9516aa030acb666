import { expect, it } from "vitest";
import { accountsEquivalents, keysEquivalents, reviewEquivalents } from "./access-equivalents";

it("a question about access is a command with the same question", () => {
  const question = { who: "usr_1", what: "job.retry", namespace: "production", queue: "mail.*" };
  expect(reviewEquivalents("acme", question).cli).toBe(
    "corvo access explain job.retry --principal usr_1 --in production --queue 'mail.*' --tenant acme",
  );
  expect(reviewEquivalents("acme", { what: "job.retry" }).cli).toBe(
    "corvo access who-can job.retry --tenant acme",
  );
});

it("every command names its tenant, and remarks stay remarks", () => {
  for (const { cli = "" } of [accountsEquivalents("acme"), keysEquivalents("acme", "default")])
    for (const line of cli.split("\n")) expect(line).toMatch(/^(#.*|corvo .* --tenant acme)?$/);
});
