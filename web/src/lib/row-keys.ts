import { type RefObject, useRef } from "react";
import { useShortcuts } from "./shortcuts";

/** The id of the row that holds the focus; its link carries data-row. */
function focused(): string | undefined {
  const row = document.activeElement?.closest("tr, li")?.querySelector<HTMLElement>("[data-row]");
  return row?.dataset.row;
}

/**
 * j and k move through the links with data-row inside of the returned element, and each
 * verb acts on the row with the focus. After a verb the focus goes on to the next row,
 * because the one that was acted on may leave the list.
 */
export function useRowKeys<E extends HTMLElement>(
  verbs: Record<string, (id: string) => void>,
): RefObject<E | null> {
  const list = useRef<E>(null);
  const links = () => [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
  function move(by: number) {
    const all = links();
    const at = all.findIndex((link) => link.dataset.row === focused());
    all[Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
  }
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    ...Object.fromEntries(
      Object.entries(verbs).map(([key, act]) => [
        key,
        () => {
          const id = focused();
          if (id === undefined) return;
          act(id);
        },
      ]),
    ),
  });
  return list;
}
