import { clsx } from "clsx";
import type { ReactNode } from "react";

const tones = {
  neutral: "bg-muted-soft text-ink-2",
  accent: "bg-accent-soft text-accent-text",
  ok: "bg-ok-soft text-ok-text",
  warn: "bg-warn-soft text-warn-text",
  danger: "bg-danger-soft text-danger-text",
  info: "bg-info-soft text-info-text",
  violet: "bg-violet-soft text-violet-text",
  pink: "bg-pink-soft text-pink-text",
} as const;

export type Tone = keyof typeof tones;

interface BadgeProps {
  tone?: Tone;
  icon?: ReactNode;
  children: ReactNode;
  className?: string;
}

/** A word with a color. The word is enough; the color only helps. */
export function Badge({ tone = "neutral", icon, children, className }: BadgeProps) {
  return (
    <span
      className={clsx(
        "state-badge inline-flex h-5.5 items-center gap-1 rounded-md px-1.5 text-12 font-medium whitespace-nowrap [&_svg]:size-3.5 [&_svg]:shrink-0",
        tones[tone],
        className,
      )}
    >
      {icon}
      {children}
    </span>
  );
}
