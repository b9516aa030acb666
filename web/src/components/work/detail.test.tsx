// @vitest-environment happy-dom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { DataError } from "~/data/jobs-api";
import { showAt } from "~/testing/page";
import { Detail } from "./detail";

afterEach(cleanup);

async function show(data: string | undefined, error: unknown = null) {
  const refetch = vi.fn(() => Promise.resolve());
  const page = (
    <Detail what="chain" title="Chain c1" query={{ data, error, refetch }}>
      {(chain) => <p>{chain}</p>}
    </Detail>
  );
  await showAt("/acme/production/chains/c1", page);
  return refetch;
}

it("is loading at first, under its own name", async () => {
  await show(undefined);
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Chain c1");
  expect(screen.getByRole("status", { name: "Loading chain" })).toBeTruthy();
});

it("says of what is not there that it is not there, and does not offer to try again", async () => {
  await show(undefined, new DataError(404, "NOT_FOUND", "no such chain", undefined, {}));
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Chain not found");
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
});

it("offers to try again what could not be loaded", async () => {
  const refetch = await show(undefined, new DataError(503, "UNAVAILABLE", "away", undefined, {}));
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(refetch).toHaveBeenCalledOnce();
});

it("goes on showing what it has when it can't be read again", async () => {
  await show("two steps", new DataError(503, "UNAVAILABLE", "away", undefined, {}));
  expect(screen.getByText("two steps")).toBeTruthy();
  expect(screen.queryByRole("alert")).toBeNull();
});
