// @vitest-environment happy-dom
import { QueryClientProvider, useInfiniteQuery } from "@tanstack/react-query";
import { act, cleanup, renderHook, waitFor } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { newClient } from "~/testing/page";
import type { LiveEvent } from "./events";
import { useRefresh } from "./refresh";

let deliver: (events: readonly LiveEvent[]) => void = () => {};
vi.mock("./live", () => ({
  useLiveEvents: (listener: typeof deliver) => {
    deliver = listener;
  },
}));

afterEach(cleanup);

it("leaves the next page to whoever asked for it, and reads all again after it", async () => {
  const reads: number[] = [];
  let arrive = () => {};
  const read = (page: number) => {
    reads.push(page);
    if (page === 0 || reads.filter((each) => each === page).length > 1) return { page };
    return new Promise<{ page: number }>((resolve) => {
      arrive = () => resolve({ page });
    });
  };
  const client = newClient();
  const { result } = renderHook(
    () => {
      useRefresh(["list"], () => true, 10);
      return useInfiniteQuery({
        queryKey: ["list"],
        queryFn: ({ pageParam }) => read(pageParam),
        initialPageParam: 0,
        getNextPageParam: ({ page }) => (page === 0 ? 1 : undefined),
      });
    },
    { wrapper: ({ children }) => <QueryClientProvider client={client}>{children}</QueryClientProvider> },
  );
  await waitFor(() => expect(result.current.hasNextPage).toBe(true));
  act(() => void result.current.fetchNextPage());
  act(() => deliver([{ type: "enqueued" } as LiveEvent]));
  // Longer than the events take to settle: the page is still on its way.
  await act(() => new Promise((resolve) => setTimeout(resolve, 1_200)));
  expect(reads).toEqual([0, 1]);
  await act(async () => arrive());
  await waitFor(() => expect(result.current.data?.pages.map(({ page }) => page)).toEqual([0, 1]));
  await waitFor(() => expect(reads).toEqual([0, 1, 0, 1]), { timeout: 5_000 });
});
