import { lazy, Suspense, useSyncExternalStore } from "react";
import type { ToastOptions } from "./toast-view";

const load = () => import("./toast-view");

// Nothing is loaded until there is a message.
let wanted = false;
const listeners = new Set<() => void>();

/**
 * Shows a message that goes by itself. Errors stay longer and are announced at once.
 * Not a hook, so that code outside of React can report too.
 */
export function toast(options: ToastOptions): void {
  wanted = true;
  for (const listener of listeners) listener();
  void load().then((view) => view.show(options));
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const View = lazy(async () => ({ default: (await load()).ToastView }));

/** Once, at the root of the page. */
export function Toaster() {
  return useSyncExternalStore(subscribe, () => wanted) ? (
    <Suspense>
      <View />
    </Suspense>
  ) : null;
}
