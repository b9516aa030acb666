import { cloneElement, lazy, type ReactElement, Suspense } from "react";
import { useIdle } from "~/lib/idle";

interface TooltipProps {
  /** Plain text; a new line starts a new row. Must be reachable without the tooltip too. */
  content: string;
  shortcut?: string | undefined;
  side?: "top" | "bottom" | "left" | "right";
  children: ReactElement;
}

/**
 * Adds a hint to an element. It is only two attributes: one layer for the whole page
 * shows the hint, so that thousands of rows with times cost nothing.
 */
export function Tooltip({ content, shortcut, side, children }: TooltipProps) {
  return cloneElement(children as ReactElement<Record<string, unknown>>, {
    "data-tip": content,
    ...(shortcut ? { "data-tip-keys": shortcut } : {}),
    ...(side ? { "data-tip-side": side } : {}),
  });
}

const Layer = lazy(() => import("./tooltip-layer"));

/** Once, at the root of the page. */
export function TooltipLayer() {
  return useIdle() ? (
    <Suspense>
      <Layer />
    </Suspense>
  ) : null;
}
