import { useEffect, useState } from "react";

// Long enough that what the page shows has been asked for and drawn.
const AFTER_MS = 1_500;

/** Calls back once the page has loaded and had a moment of rest. Returns how to call it off. */
export function whenIdle(act: () => void): () => void {
  let timer = 0;
  const start = () => {
    timer = window.setTimeout(act, AFTER_MS);
  };
  if (document.readyState === "complete") start();
  else window.addEventListener("load", start, { once: true });
  return () => {
    window.removeEventListener("load", start);
    window.clearTimeout(timer);
  };
}

/** Whether the page has had a moment of rest: the time for what nobody waits for. */
export function useIdle(): boolean {
  const [idle, setIdle] = useState(false);
  useEffect(() => whenIdle(() => setIdle(true)), []);
  return idle;
}
