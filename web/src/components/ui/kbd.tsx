import { clsx } from "clsx";

const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

function keyName(key: string): string {
  if (key === "mod") return apple ? "⌘" : "Ctrl";
  if (key === "shift") return apple ? "⇧" : "Shift";
  if (key === "enter") return "↵";
  if (key === "esc") return "Esc";
  return key.length === 1 ? key.toUpperCase() : key;
}

/** Shows a shortcut: keys of a chord joined by "+", keys of a sequence by a blank ("g q"). */
export function Kbd({ keys, tone = "normal" }: { keys: string; tone?: "normal" | "inverse" }) {
  const names = keys.split(/[ +]/).filter(Boolean);
  return (
    <span className="inline-flex items-center gap-0.5" aria-hidden>
      {names.map((key) => (
        <kbd
          key={key}
          className={clsx(
            "inline-flex h-4.5 min-w-4.5 items-center justify-center rounded-sm border px-1 font-sans text-11 font-medium",
            tone === "inverse"
              ? "border-current/30 text-primary-on"
              : "border-line-strong bg-surface text-ink-2",
          )}
        >
          {keyName(key)}
        </kbd>
      ))}
    </span>
  );
}

/** A shortcut with what it does; the keys are spoken too. */
export function KeyboardHint({ keys, children }: { keys: string; children: React.ReactNode }) {
  return (
    <span className="inline-flex items-center gap-1.5 text-12 text-ink-3">
      <Kbd keys={keys} />
      <span className="sr-only">{keys.split(" ").map(keyName).join(" then ")}: </span>
      {children}
    </span>
  );
}
