import { clsx } from "clsx";
import { ChevronDown } from "lucide-react";
import { controlClass, useField } from "./field";
import type { Option } from "./option";

interface ChoiceProps<V extends string> {
  options: readonly Option<V>[];
  value: V;
  onChange: (value: V) => void;
  /** Needed outside of a Field. */
  label?: string;
  disabled?: boolean;
  className?: string;
}

/**
 * One of a few values by the browser's own list: light, and at home on a phone. The
 * description of what is chosen stands below it. For many values, or ones to type, use Combobox.
 */
export function Choice<V extends string>({
  options,
  value,
  onChange,
  label,
  disabled,
  className,
}: ChoiceProps<V>) {
  const field = useField();
  const chosen = options.find((option) => option.value === value);
  return (
    <div className={clsx("min-w-0", className)}>
      <div className="relative">
        <select
          id={field?.id}
          aria-label={label}
          aria-describedby={field?.describedBy}
          aria-invalid={field?.invalid || undefined}
          disabled={disabled}
          value={value}
          onChange={(event) => onChange(event.target.value as V)}
          className={clsx(controlClass, "h-8 appearance-none pr-8 pl-2.5 text-13 pointer-coarse:text-16")}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value} disabled={option.disabled}>
              {option.label}
            </option>
          ))}
        </select>
        <ChevronDown aria-hidden className="pointer-events-none absolute top-2 right-2.5 size-4 text-ink-3" />
      </div>
      {field && chosen?.description ? <p className="mt-1 text-12 text-ink-3">{chosen.description}</p> : null}
    </div>
  );
}
