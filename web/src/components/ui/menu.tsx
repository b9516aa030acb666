import { Menu as Base } from "@base-ui/react/menu";
import { clsx } from "clsx";
import { Check } from "lucide-react";
import type { ReactElement, ReactNode } from "react";
import { Kbd } from "./kbd";

interface MenuProps {
  trigger: ReactElement;
  children: ReactNode;
  align?: "start" | "center" | "end";
  side?: "top" | "bottom" | "right";
  className?: string;
  open?: boolean;
  defaultOpen?: boolean;
  onOpenChange?: (open: boolean) => void;
}

export function Menu({
  trigger,
  children,
  align = "start",
  side = "bottom",
  className,
  open,
  defaultOpen,
  onOpenChange,
}: MenuProps) {
  return (
    <Base.Root open={open} defaultOpen={defaultOpen} onOpenChange={onOpenChange}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner align={align} side={side} sideOffset={4} className="z-50">
          <Base.Popup
            className={clsx(
              "popup max-h-(--available-height) min-w-48 overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-3 outline-none",
              className,
            )}
          >
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

const itemClass =
  "flex min-h-8 w-full items-center gap-2 rounded-md px-2 py-1 text-13 text-ink outline-none data-disabled:text-ink-3 data-highlighted:bg-hover [&_svg]:size-4 [&_svg]:shrink-0 [&_svg]:text-ink-3";

interface MenuItemProps {
  icon?: ReactNode;
  shortcut?: string;
  tone?: "normal" | "danger";
  /** Why it cannot be chosen; shown as second line. */
  blockedBecause?: string | undefined;
  onSelect?: () => void;
  /** A link element; then onSelect is not needed. */
  render?: ReactElement;
  children: ReactNode;
  selected?: boolean;
}

export function MenuItem({
  icon,
  shortcut,
  tone = "normal",
  blockedBecause,
  onSelect,
  render,
  children,
  selected,
}: MenuItemProps) {
  const inner = (
    <>
      {icon}
      <span className="min-w-0 flex-1">
        <span className="block truncate">{children}</span>
        {blockedBecause ? <span className="block max-w-64 text-12 text-ink-3">{blockedBecause}</span> : null}
      </span>
      {selected ? <Check aria-hidden className="text-accent-text!" /> : null}
      {shortcut ? <Kbd keys={shortcut} /> : null}
    </>
  );
  const className = clsx(
    itemClass,
    tone === "danger" && !blockedBecause && "text-danger-text [&_svg]:text-danger-text",
  );
  if (render && !blockedBecause) {
    return (
      <Base.LinkItem closeOnClick render={render} className={className} aria-current={selected || undefined}>
        {inner}
      </Base.LinkItem>
    );
  }
  return (
    <Base.Item disabled={Boolean(blockedBecause)} onClick={onSelect} className={className}>
      {inner}
    </Base.Item>
  );
}

export function MenuSeparator() {
  return <Base.Separator className="mx-1 my-1 h-px bg-line" />;
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <div className="px-2 pt-1.5 pb-1 text-11 font-medium text-ink-3">{children}</div>;
}

interface MenuRadioProps<V extends string> {
  label: string;
  value: V;
  onChange: (value: V) => void;
  options: readonly { value: V; label: string; icon?: ReactNode }[];
}

export function MenuRadio<V extends string>({ label, value, onChange, options }: MenuRadioProps<V>) {
  return (
    <Base.RadioGroup value={value} onValueChange={(next) => onChange(next as V)} aria-label={label}>
      <MenuLabel>{label}</MenuLabel>
      {options.map((option) => (
        <Base.RadioItem key={option.value} value={option.value} className={itemClass}>
          {option.icon}
          <span className="flex-1">{option.label}</span>
          <Base.RadioItemIndicator>
            <Check aria-hidden className="text-accent-text!" />
          </Base.RadioItemIndicator>
        </Base.RadioItem>
      ))}
    </Base.RadioGroup>
  );
}
