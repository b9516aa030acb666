import { clsx } from "clsx";
import { CircleAlert } from "lucide-react";
import { type ReactNode, useId } from "react";
import type { Option } from "./option";

interface ChecksProps<V extends string> {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | undefined;
  options: readonly Option<V>[];
  value: readonly V[];
  onChange: (value: V[]) => void;
  /** Side by side, where each is a word or two. */
  dense?: boolean;
  /** All of them at once, where none may be overlooked; else a long list scrolls. */
  whole?: boolean;
  className?: string;
}

/** Any of a few values. */
export function Checks<V extends string>({
  label,
  hint,
  error,
  options,
  value,
  onChange,
  dense,
  whole,
  className,
}: ChecksProps<V>) {
  const id = useId();
  const toggle = (one: V) =>
    onChange(value.includes(one) ? value.filter((other) => other !== one) : [...value, one]);
  return (
    <fieldset
      aria-describedby={error ? `${id}-error` : hint ? `${id}-hint` : undefined}
      className={clsx("min-w-0", className)}
    >
      <legend className="pb-1 text-13 font-medium text-ink">{label}</legend>
      {hint ? (
        <p id={`${id}-hint`} className="pb-1 text-12 text-ink-3">
          {hint}
        </p>
      ) : null}
      <div
        className={clsx(
          "rounded-md border border-field-line px-2.5 py-1.5",
          !whole && "max-h-64 overflow-y-auto",
          dense && "flex flex-wrap gap-x-5",
        )}
      >
        {options.map((option) => (
          <CheckRow
            key={option.value}
            checked={value.includes(option.value)}
            disabled={option.disabled}
            onChange={() => toggle(option.value)}
            label={option.label}
            description={option.description}
          />
        ))}
      </div>
      {error ? (
        <p id={`${id}-error`} role="alert" className="mt-1.5 flex gap-1.5 text-12 text-danger-text">
          <CircleAlert aria-hidden className="mt-0.5 size-3.5 shrink-0" />
          <span className="min-w-0 wrap-anywhere first-letter:uppercase">{error}</span>
        </p>
      ) : null}
    </fieldset>
  );
}

interface CheckRowProps {
  checked: boolean;
  onChange: () => void;
  label: ReactNode;
  description?: ReactNode;
  disabled?: boolean | undefined;
}

/** One box with its label, and a line about it. */
export function CheckRow({ checked, onChange, label, description, disabled }: CheckRowProps) {
  const id = useId();
  return (
    <div className="flex min-h-7 items-start gap-2.5 py-1 text-13">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        disabled={disabled}
        aria-describedby={description ? `${id}-about` : undefined}
        onChange={onChange}
        className="mt-0.5 size-4.5 shrink-0 accent-accent"
      />
      <span className="min-w-0">
        <label htmlFor={id} className={clsx("block wrap-anywhere", disabled && "text-ink-3")}>
          {label}
        </label>
        {description ? (
          <span id={`${id}-about`} className="block text-12 text-ink-3">
            {description}
          </span>
        ) : null}
      </span>
    </div>
  );
}
