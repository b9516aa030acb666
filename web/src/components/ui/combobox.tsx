import { Combobox as Base } from "@base-ui/react/combobox";
import { clsx } from "clsx";
import { Check, ChevronsUpDown, X } from "lucide-react";
import { count } from "~/lib/numbers";
import { controlClass, useField } from "./field";
import type { Option } from "./option";

export interface ComboboxProps {
  options: readonly Option[];
  value: string | null;
  onChange: (value: string | null) => void;
  placeholder?: string;
  /** Needed outside of a Field. */
  label?: string;
  empty?: string;
  clearable?: boolean;
  disabled?: boolean;
  className?: string;
  /** The page's "/" leads here. */
  filterKey?: boolean;
  /** Begins with the focus, open, and with this text. */
  begun?: { typed: string | undefined } | undefined;
}

// Nobody reads more than this; with thousands of values, people type.
const SHOWN_MAX = 100;

/** One of many values, searchable by typing. */
export function Combobox({
  options,
  value,
  onChange,
  placeholder,
  label,
  empty = "No matches.",
  clearable = true,
  disabled,
  className,
  filterKey,
  begun,
}: ComboboxProps) {
  const field = useField();
  const selected =
    options.find((option) => option.value === value) ?? (value ? { value, label: value } : null);
  return (
    <Base.Root
      items={options}
      value={selected}
      onValueChange={(next) => onChange(next ? (next as Option).value : null)}
      isItemEqualToValue={(a, b) => (a as Option).value === (b as Option).value}
      disabled={disabled}
      autoHighlight
      limit={SHOWN_MAX}
      defaultOpen={begun !== undefined}
      {...(begun?.typed === undefined ? {} : { defaultInputValue: begun.typed })}
    >
      <Base.InputGroup
        className={clsx(
          controlClass,
          "flex h-8 items-center pr-1 focus-within:outline-2 focus-within:-outline-offset-1 focus-within:outline-ring",
          className,
        )}
      >
        <Base.Input
          id={field?.id}
          aria-label={label}
          aria-describedby={field?.describedBy}
          placeholder={placeholder}
          data-filter={filterKey || undefined}
          autoFocus={begun !== undefined}
          // What is typed next takes the place of the choice, and never of what was typed so far.
          onFocus={(event) => {
            if (event.currentTarget.value === selected?.label) event.currentTarget.select();
          }}
          className="h-full w-full min-w-0 bg-transparent pl-2.5 text-13 outline-none pointer-coarse:text-16"
        />
        {clearable && value ? (
          <Base.Clear
            aria-label="Clear"
            className="grid size-6 place-items-center rounded-sm text-ink-3 hover:bg-hover hover:text-ink"
          >
            <X aria-hidden className="size-3.5" />
          </Base.Clear>
        ) : null}
        <Base.Trigger
          aria-label="Show all"
          className="grid size-6 place-items-center rounded-sm text-ink-3 hover:text-ink"
        >
          <ChevronsUpDown aria-hidden className="size-3.5" />
        </Base.Trigger>
      </Base.InputGroup>
      <Base.Portal>
        <Base.Positioner sideOffset={4} className="z-50">
          <Base.Popup className="popup max-h-[min(20rem,var(--available-height))] w-max max-w-[min(28rem,var(--available-width))] min-w-(--anchor-width) overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-3">
            <Base.Empty>
              <div className="px-2 py-3 text-13 text-ink-3">{empty}</div>
            </Base.Empty>
            <Base.List>
              {(option: Option) => (
                <Base.Item
                  key={option.value}
                  value={option}
                  className="grid min-h-8 grid-cols-[1fr_1rem] items-center gap-3 rounded-md px-2 py-1 text-13 outline-none data-highlighted:bg-hover"
                >
                  <span className="flex min-w-0 items-center gap-2">
                    {option.icon}
                    <span className="truncate">{option.label}</span>
                    {option.description ? (
                      <span className="truncate text-12 text-ink-3">{option.description}</span>
                    ) : null}
                  </span>
                  <Base.ItemIndicator className="text-accent-text">
                    <Check aria-hidden className="size-4" />
                  </Base.ItemIndicator>
                </Base.Item>
              )}
            </Base.List>
            {options.length > SHOWN_MAX ? (
              <p className="border-t border-line px-2 pt-1.5 pb-1 text-12 text-ink-3">
                Type to search all {count(options.length)}
              </p>
            ) : null}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
