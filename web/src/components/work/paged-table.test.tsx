// @vitest-environment happy-dom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { showAt } from "~/testing/page";
import { PagedTable } from "./paged-table";

afterEach(cleanup);

async function show(pages: string[][] | undefined, more: { error?: unknown; hasNextPage?: boolean } = {}) {
  const list = {
    data: pages && { pages: pages.map((rows) => ({ rows })) },
    error: null as unknown,
    hasNextPage: false,
    isFetchingNextPage: false,
    fetchNextPage: vi.fn(() => Promise.resolve()),
    refetch: vi.fn(() => Promise.resolve()),
    ...more,
  };
  const columns = [{ id: "id", header: "Batch", cell: (row: string) => row }];
  await showAt(
    "/acme/production/batches",
    <PagedTable list={list} label="Batches" columns={columns} rowKey={(row) => row} empty="No batches" />,
  );
  return list;
}

it("shows the rows of all pages as one table, and asks for more of them", async () => {
  const list = await show([["b1", "b2"], ["b3"]], { hasNextPage: true });
  expect(screen.getAllByRole("cell").map((cell) => cell.textContent)).toEqual([
    "Batchb1",
    "Batchb2",
    "Batchb3",
  ]);
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  expect(list.fetchNextPage).toHaveBeenCalledOnce();
});

it("has no button at its end, and says when it is empty", async () => {
  await show([[]]);
  expect(screen.getByText("No batches")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
});

it("doesn't say that it is empty while there may be more", async () => {
  const list = await show([[]], { hasNextPage: true });
  expect(screen.queryByText("No batches")).toBeNull();
  expect(screen.getByText(/None so far/)).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  expect(list.fetchNextPage).toHaveBeenCalledOnce();
});

it("says why it could not be loaded; what is there stays when a later page fails", async () => {
  const list = await show(undefined, { error: new Error("away") });
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(list.refetch).toHaveBeenCalledOnce();
  cleanup();
  await show([["b1"]], { error: new Error("away") });
  expect(screen.getByRole("cell").textContent).toBe("Batchb1");
  expect(screen.queryByRole("alert")).toBeNull();
});
