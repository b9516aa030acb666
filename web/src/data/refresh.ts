import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { LiveEvent } from "./events";
import { useLiveEvents } from "./live";

// What a page shows may follow its events by a moment: ask once more after the last one.
const SETTLE_MS = 900;

/** Asks for a read again when events say that it may have changed, at most once in so many milliseconds. */
export function useRefresh(
  queryKey: QueryKey,
  concerns: (event: LiveEvent) => boolean,
  atMostEvery = 1_000,
): void {
  const client = useQueryClient();
  const timer = useRef<number>(undefined);
  const last = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  useLiveEvents((events) => {
    if (!events.some(concerns)) return;
    const ask = () => {
      last.current = Date.now();
      // What is under way may be the next page, which somebody waits for.
      void client.invalidateQueries({ queryKey }, { cancelRefetch: false });
    };
    // Such a read may be older than the events: the last word is one that begins after it.
    const settle = () => {
      if (client.isFetching({ queryKey })) timer.current = window.setTimeout(settle, SETTLE_MS);
      else ask();
    };
    if (Date.now() - last.current > atMostEvery) ask();
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(settle, Math.max(SETTLE_MS, last.current + atMostEvery - Date.now()));
  });
}
