import { useField } from "./field";

interface SwitchProps {
  checked: boolean;
  onChange: (checked: boolean) => void;
  /** Needed outside of a Field. */
  label?: string;
  disabled?: boolean;
}

/** The browser's own checkbox, heard and looking as a switch. */
export function Switch({ checked, onChange, label, disabled }: SwitchProps) {
  const field = useField();
  return (
    <input
      type="checkbox"
      role="switch"
      id={field?.id}
      aria-describedby={field?.describedBy}
      aria-label={label}
      checked={checked}
      aria-checked={checked}
      disabled={disabled}
      onChange={(event) => onChange(event.target.checked)}
      className={
        "inline-flex h-6 w-10 shrink-0 cursor-pointer appearance-none items-center rounded-full border border-field-line bg-sunken p-0.5 transition-colors duration-150 checked:border-accent checked:bg-accent disabled:cursor-default disabled:opacity-60 " +
        "before:size-4.5 before:rounded-full before:bg-ink-2 before:transition-transform before:duration-150 checked:before:translate-x-4 checked:before:bg-accent-on"
      }
    />
  );
}
