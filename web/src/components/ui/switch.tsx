import { Switch as Base } from "@base-ui/react/switch";
import { useField } from "./field";

interface SwitchProps {
  checked: boolean;
  onChange: (checked: boolean) => void;
  /** Needed outside of a Field. */
  label?: string;
  disabled?: boolean;
}

export function Switch({ checked, onChange, label, disabled }: SwitchProps) {
  const field = useField();
  return (
    <Base.Root
      id={field?.id}
      checked={checked}
      onCheckedChange={onChange}
      disabled={disabled}
      aria-label={label}
      className="relative inline-flex h-6 w-10 shrink-0 items-center rounded-full border border-field-line bg-sunken p-0.5 transition-colors duration-150 data-checked:border-accent data-checked:bg-accent data-disabled:opacity-60"
    >
      <Base.Thumb className="size-4.5 rounded-full bg-ink-2 transition-transform duration-150 data-checked:translate-x-4 data-checked:bg-accent-on" />
    </Base.Root>
  );
}
