import { lazy, Suspense } from "react";

export interface ToastOptions {
  title: string;
  description?: string;
  kind?: "ok" | "error" | "info";
  action?: { label: string; onClick: () => void };
}

const load = () => import("./toast-view");

/**
 * Shows a message that goes by itself. Errors stay longer and are announced at once.
 * Not a hook, so that code outside of React can report too.
 */
export function toast(options: ToastOptions): void {
  void load().then((view) => view.show(options));
}

const View = lazy(async () => ({ default: (await load()).ToastView }));

/** Once, at the root of the page. */
export function Toaster() {
  return (
    <Suspense>
      <View />
    </Suspense>
  );
}
