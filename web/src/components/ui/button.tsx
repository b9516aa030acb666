import { clsx } from "clsx";
import { LoaderCircle } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";
import { Tooltip } from "./tooltip";

const variants = {
  primary:
    "bg-primary text-primary-on border-transparent shadow-1 hover:bg-primary-strong off:bg-muted-soft off:text-ink-3 off:shadow-none off:hover:bg-muted-soft",
  accent:
    "bg-accent text-accent-on border-transparent shadow-1 hover:bg-accent-strong off:bg-muted-soft off:text-ink-3 off:shadow-none off:hover:bg-muted-soft",
  secondary:
    "bg-raised text-ink border-line-strong shadow-1 hover:bg-hover off:text-ink-3 off:border-line off:shadow-none off:hover:bg-raised",
  ghost:
    "bg-transparent text-ink-2 border-transparent hover:bg-hover hover:text-ink off:text-ink-3 off:hover:bg-transparent",
  danger:
    "bg-danger text-danger-on border-transparent shadow-1 hover:bg-danger-strong off:bg-muted-soft off:text-ink-3 off:shadow-none off:hover:bg-muted-soft",
  "danger-ghost":
    "bg-transparent text-danger-text border-transparent hover:bg-danger-soft off:text-ink-3 off:hover:bg-transparent",
} as const;

const sizes = {
  sm: "h-7 px-2.5 text-12 gap-1.5",
  md: "h-8 px-3 text-13 gap-1.5",
  lg: "h-10 px-4 text-14 gap-2",
} as const;

const squares = { sm: "size-7", md: "size-8", lg: "size-10" } as const;

export type ButtonVariant = keyof typeof variants;

export interface ButtonProps extends Omit<ComponentProps<"button">, "className"> {
  variant?: ButtonVariant;
  size?: keyof typeof sizes;
  icon?: ReactNode;
  /** Shows a spinner and takes no second click; the label stays, so the width does too. */
  busy?: boolean;
  /** Why the button cannot be used now. It stays focusable and says so in a tooltip. */
  blockedBecause?: string | undefined;
  className?: string;
}

export function buttonClass(
  variant: ButtonVariant = "secondary",
  size: keyof typeof sizes = "md",
  extra?: string,
): string {
  return clsx(
    "inline-flex shrink-0 items-center justify-center rounded-md border font-medium whitespace-nowrap select-none",
    "transition-colors duration-100 active:translate-y-px off:active:translate-y-0 off:cursor-not-allowed",
    "[&_svg]:size-4 [&_svg]:shrink-0",
    variants[variant],
    sizes[size],
    extra,
  );
}

/** A button. For a link that looks like one, give a Link the class of buttonClass(). */
export function Button({
  variant = "secondary",
  size = "md",
  icon,
  busy = false,
  blockedBecause,
  className,
  children,
  ...rest
}: ButtonProps) {
  const button = (
    <button {...behaviour(rest, busy, blockedBecause)} className={buttonClass(variant, size, className)}>
      {busy ? <LoaderCircle aria-hidden className="animate-spin" /> : icon}
      {children}
    </button>
  );
  return blockedBecause ? <Tooltip content={blockedBecause}>{button}</Tooltip> : button;
}

export interface IconButtonProps extends Omit<ButtonProps, "children" | "icon"> {
  /** What the button does, for people who hear it and as tooltip. */
  label: string;
  shortcut?: string;
  children: ReactNode;
}

/** A square button with a picture only. Its label is spoken and shown as a tooltip. */
export function IconButton({
  label,
  shortcut,
  children,
  variant = "ghost",
  size = "md",
  className,
  busy = false,
  blockedBecause,
  ...rest
}: IconButtonProps) {
  return (
    <Tooltip content={blockedBecause ?? label} shortcut={blockedBecause ? undefined : shortcut}>
      <button
        {...behaviour(rest, busy, blockedBecause)}
        aria-label={label}
        className={clsx(buttonClass(variant, size, className), squares[size], "px-0!")}
      >
        {busy ? <LoaderCircle aria-hidden className="animate-spin" /> : children}
      </button>
    </Tooltip>
  );
}

// A blocked button stays focusable, so that everybody can learn why it is blocked.
function behaviour(
  rest: ComponentProps<"button">,
  busy: boolean,
  blockedBecause: string | undefined,
): ComponentProps<"button"> {
  const blocked = Boolean(blockedBecause);
  return {
    type: "button",
    ...rest,
    ...(blocked ? { "aria-disabled": true, "aria-description": blockedBecause, disabled: false } : {}),
    "aria-busy": busy || undefined,
    onClick: busy || blocked ? (event) => event.preventDefault() : rest.onClick,
  };
}
