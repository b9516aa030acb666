import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { LiveEvent } from "./events";
import { useLiveEvents } from "./live";

// A page that follows the stream asks again at most this often.
const REFRESH_MS = 1_000;
// What a page shows may follow its events by a moment: ask once more after the last one.
const SETTLE_MS = 900;

/** Asks for a read again when events say that it may have changed. */
export function useRefresh(queryKey: QueryKey, concerns: (event: LiveEvent) => boolean): void {
  const client = useQueryClient();
  const timer = useRef<number>(undefined);
  const last = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  useLiveEvents((events) => {
    if (!events.some(concerns)) return;
    const ask = () => {
      last.current = Date.now();
      void client.invalidateQueries({ queryKey });
    };
    if (Date.now() - last.current > REFRESH_MS) ask();
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(ask, SETTLE_MS);
  });
}
