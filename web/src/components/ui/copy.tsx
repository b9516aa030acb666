import { clsx } from "clsx";
import { Check, Copy } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { buttonClass } from "./button";
import { toast } from "./toast";
import { Tooltip } from "./tooltip";

/** Copies and remembers for a moment that it did, for the tick. */
export function useCopy(): { copied: boolean; copy: (text: string) => Promise<void> } {
  const [copied, setCopied] = useState(false);
  const timer = useRef<number>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  async function copy(text: string) {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => setCopied(false), 1600);
    } catch {
      toast({
        kind: "error",
        title: "Couldn't copy",
        description: "Your browser blocked it. Select the text and copy it.",
      });
    }
  }
  return { copied, copy };
}

interface CopyButtonProps {
  text: string;
  /** What is copied: "Copy the key". */
  label?: string;
  /** With a word beside the icon. */
  children?: ReactNode;
  className?: string;
}

export function CopyButton({ text, label = "Copy", children, className }: CopyButtonProps) {
  const { copied, copy } = useCopy();
  const button = (
    <button
      type="button"
      aria-label={children ? undefined : label}
      onClick={() => void copy(text)}
      className={
        children
          ? buttonClass("secondary", "sm", className)
          : clsx(
              "inline-grid size-6 place-items-center rounded-sm align-middle text-ink-3 hover:bg-hover hover:text-ink",
              className,
            )
      }
    >
      {copied ? (
        <Check aria-hidden className="size-3.5 text-ok-text" />
      ) : (
        <Copy aria-hidden className="size-3.5" />
      )}
      {children ? (copied ? "Copied" : children) : null}
      <span aria-live="polite" className="sr-only">
        {copied ? "Copied" : ""}
      </span>
    </button>
  );
  return children ? button : <Tooltip content={copied ? "Copied" : label}>{button}</Tooltip>;
}
