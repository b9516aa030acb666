import { useEffect, useRef } from "react";

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

/** Shortcuts of the page. They are off while text is typed and while a dialog is open. */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    const matcher = new Matcher();
    function onKey(event: KeyboardEvent) {
      if (event.defaultPrevented || event.isComposing) return;
      const key = keyOf(event);
      const chord = key.startsWith("mod+");
      if (
        !chord &&
        (isTyping(event.target) || document.querySelector('[data-modal],[role="menu"],[role="listbox"]'))
      )
        return;
      const name = matcher.match(Object.keys(latest.current), key, event.timeStamp);
      if (!name) return;
      event.preventDefault();
      latest.current[name]?.(event);
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
