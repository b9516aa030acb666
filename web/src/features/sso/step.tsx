import { clsx } from "clsx";
import { Check } from "lucide-react";
import type { ReactNode } from "react";
import { Card } from "~/components/ui/card";

/** The state of a setup step: done, current, or not yet possible. */
export type Progress = "done" | "now" | "later";

interface StepProps {
  number: number;
  progress: Progress;
  title: string;
  description: ReactNode;
  action?: ReactNode;
  footer?: ReactNode;
  children?: ReactNode;
}

const words: Record<Progress, string> = { done: "done", now: "next", later: "later" };

/** One setup step. A later one describes what it will be. */
export function Step({ number, progress, title, description, action, footer, children }: StepProps) {
  const later = progress === "later";
  return (
    <Card
      className={clsx(later && "bg-transparent! shadow-none!")}
      title={
        <span className="flex items-center gap-2.5">
          <span
            aria-hidden
            className={clsx(
              "nums grid size-6 shrink-0 place-items-center rounded-full border text-12 font-semibold",
              progress === "done" && "border-ok-line bg-ok-soft text-ok-text",
              progress === "now" && "border-transparent bg-accent text-accent-on",
              later && "border-line-strong text-ink-3",
            )}
          >
            {progress === "done" ? <Check className="size-3.5" /> : number}
          </span>
          <span className={clsx(later && "text-ink-2")}>
            {title}
            <span className="sr-only">
              , step {number} of 4, {words[progress]}
            </span>
          </span>
        </span>
      }
      description={<span className="block pl-8.5">{description}</span>}
      action={action}
      footer={footer}
    >
      {later ? undefined : children}
    </Card>
  );
}
