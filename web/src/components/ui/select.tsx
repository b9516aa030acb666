import { Select as Base } from "@base-ui/react/select";
import { clsx } from "clsx";
import { Check, ChevronsUpDown } from "lucide-react";
import type { ReactNode } from "react";
import { controlClass, useField } from "./field";

export interface Option<V extends string = string> {
  value: V;
  label: string;
  /** A second line in the list. */
  description?: string;
  icon?: ReactNode;
  disabled?: boolean;
}

export interface SelectProps<V extends string> {
  options: readonly Option<V>[];
  value: V;
  onChange: (value: V) => void;
  /** Needed outside of a Field. */
  label?: string;
  disabled?: boolean;
  className?: string;
  size?: "md" | "lg";
}

/** One of a few values. For many values, or ones to type, use Combobox. */
export function Select<V extends string>({
  options,
  value,
  onChange,
  label,
  disabled,
  className,
  size = "md",
}: SelectProps<V>) {
  const field = useField();
  return (
    <Base.Root
      items={options}
      value={value}
      onValueChange={(next) => next !== null && onChange(next as V)}
      disabled={disabled}
      id={field?.id}
    >
      <Base.Trigger
        aria-label={label}
        aria-describedby={field?.describedBy}
        className={clsx(
          controlClass,
          "flex items-center justify-between gap-2 px-2.5 text-left",
          size === "lg" ? "h-10 text-14" : "h-8 text-13",
          className,
        )}
      >
        <Base.Value className="truncate" />
        <Base.Icon className="shrink-0 text-ink-3">
          <ChevronsUpDown aria-hidden className="size-3.5" />
        </Base.Icon>
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} alignItemWithTrigger={false} className="z-50">
          <Base.Popup className="popup max-h-[min(24rem,var(--available-height))] min-w-(--anchor-width) overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-3 outline-none">
            {options.map((option) => (
              <Base.Item
                key={option.value}
                value={option.value}
                disabled={option.disabled}
                className="grid min-h-8 grid-cols-[1fr_1rem] items-center gap-3 rounded-md px-2 py-1 text-13 outline-none data-disabled:text-ink-3 data-highlighted:bg-hover"
              >
                <div className="min-w-0">
                  <Base.ItemText className="flex items-center gap-2">
                    {option.icon}
                    {option.label}
                  </Base.ItemText>
                  {option.description ? (
                    <div className="max-w-72 text-12 text-ink-3">{option.description}</div>
                  ) : null}
                </div>
                <Base.ItemIndicator className="text-accent-text">
                  <Check aria-hidden className="size-4" />
                </Base.ItemIndicator>
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
