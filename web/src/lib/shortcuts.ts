import { type RefObject, useEffect, useRef } from "react";

/** A chord ("mod+k"), a key ("/") or a sequence ("g q"), and what it does. */
export type Shortcuts = Record<string, (event: KeyboardEvent) => void>;

const SEQUENCE_MS = 900;

/** Whether keys belong to a control that takes text. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.tagName === "TEXTAREA" || target.tagName === "SELECT") return true;
  return (
    target.tagName === "INPUT" &&
    !["checkbox", "radio", "button", "submit"].includes((target as HTMLInputElement).type)
  );
}

export function keyOf(
  event: Pick<KeyboardEvent, "key" | "metaKey" | "ctrlKey" | "altKey" | "shiftKey">,
): string {
  const key = event.key.toLowerCase();
  if (event.metaKey || event.ctrlKey) return `mod+${event.shiftKey ? "shift+" : ""}${key}`;
  return event.altKey ? `alt+${key}` : event.shiftKey && key.length > 1 ? `shift+${key}` : key;
}

/** Matches key presses to shortcuts. Pure, for tests. */
export class Matcher {
  #first = "";
  #at = 0;

  match(names: readonly string[], key: string, now: number): string | null {
    const sequence = this.#first && now - this.#at < SEQUENCE_MS ? `${this.#first} ${key}` : "";
    this.#first = "";
    if (sequence && names.includes(sequence)) return sequence;
    if (names.includes(key)) return key;
    if (names.some((name) => name.startsWith(`${key} `))) {
      this.#first = key;
      this.#at = now;
    }
    return null;
  }
}

const registered = new Set<RefObject<Shortcuts>>();
const matcher = new Matcher();

// One for all parts of the page: who knows only some of the shortcuts takes the end of a
// sequence for a key of its own.
function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const key = keyOf(event);
  const chord = key.startsWith("mod+");
  if (
    !chord &&
    (isTyping(event.target) || document.querySelector('[data-modal],[role="menu"],[role="listbox"]'))
  )
    return;
  const all = [...registered].map((shortcuts) => shortcuts.current);
  const names = all.flatMap((shortcuts) => Object.keys(shortcuts));
  const name = matcher.match(names, key, event.timeStamp);
  if (!name) return;
  event.preventDefault();
  all.find((shortcuts) => name in shortcuts)?.[name]?.(event);
}

/** Shortcuts of a part of the page. They are off while text is typed and while a dialog is open. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    if (registered.size === 0) window.addEventListener("keydown", onKey);
    registered.add(latest);
    return () => {
      registered.delete(latest);
      if (registered.size === 0) window.removeEventListener("keydown", onKey);
    };
  }, []);
}
