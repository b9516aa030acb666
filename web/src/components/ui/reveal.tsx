import { clsx } from "clsx";
import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";

interface RevealProps {
  /** What it holds; spoken. */
  label: string;
  /** What the line to click says. */
  title?: string;
  /** All of it shows; else what is long scrolls. */
  tall?: boolean;
  children: ReactNode;
}

/** A table below a chart, for those who read it: closed until it is asked for. */
export function Reveal({ label, title = "View as table", tall = false, children }: RevealProps) {
  return (
    <details className="group -mt-px border-t border-line bg-sunken/60">
      <summary className="flex min-h-8 items-center gap-1 px-4 text-12 text-ink-2 hover:text-ink focus-visible:-outline-offset-2">
        <ChevronRight aria-hidden className="size-3.5 transition-transform group-open:rotate-90" />
        {title}
      </summary>
      <section
        aria-label={label}
        // What scrolls can be reached by keyboard.
        tabIndex={tall ? undefined : 0}
        className={clsx("px-4 pb-3 focus-visible:-outline-offset-2", !tall && "max-h-72 overflow-auto")}
      >
        {children}
      </section>
    </details>
  );
}
