// @vitest-environment happy-dom
import { Code, ConnectError } from "@connectrpc/connect";
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DataError } from "~/data/jobs-api";
import { Unreachable } from "~/data/reach";
import { showAt } from "~/testing/page";
import { Problem, ProblemPage } from "./problem";

// Nobody answers while a page waits for an answer.
beforeEach(() =>
  vi.stubGlobal(
    "fetch",
    vi.fn(() => Promise.reject(new TypeError("offline"))),
  ),
);
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it.each([
  ["a refusal", new ConnectError("no such tenant", Code.NotFound), "Couldn't load this"],
  ["a refusal of the cell", new DataError(403, "DENIED", "no", "r1", {}), "Couldn't load this"],
  ["silence", new Unreachable(), "Can't reach Corvo"],
  ["a mistake of ours", new TypeError("x is undefined"), "Something went wrong"],
])("in place of a page, %s says what it is", async (_, error, title) => {
  await showAt("/acme/production", <ProblemPage error={error} />);
  expect(screen.getByRole("alert").querySelector("h1")?.textContent).toBe(title);
  expect(screen.getByRole("main").contains(screen.getByRole("alert"))).toBe(true);
});

it("a part of a page says why it is not there, and tries again", async () => {
  const onRetry = vi.fn();
  await showAt("/acme/production", <Problem error={new Error("the list is away")} onRetry={onRetry} />);
  expect(screen.getByRole("alert").textContent).toContain("The list is away.");
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(onRetry).toHaveBeenCalledOnce();
});
