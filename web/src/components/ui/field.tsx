import { clsx } from "clsx";
import { ChevronDown, CircleAlert } from "lucide-react";
import { type ChangeEvent, type ComponentProps, createContext, type ReactNode, use, useId } from "react";

interface FieldContext {
  id: string;
  describedBy: string | undefined;
  invalid: boolean;
}

const Context = createContext<FieldContext | null>(null);

/** The ids and state of the field around, for controls that are not an Input. */
export function useField(): FieldContext | null {
  return use(Context);
}

export interface FieldProps {
  label: ReactNode;
  /** One line below the label: what the value is for. */
  hint?: ReactNode;
  /** What is wrong and what to do. Announced when it appears. */
  error?: string | undefined;
  /** Word beside the label, as "optional". */
  note?: string;
  hideLabel?: boolean;
  className?: string;
  children: ReactNode;
}

/** Ties a label, a hint and an error to the control inside. */
export function Field({ label, hint, error, note, hideLabel = false, className, children }: FieldProps) {
  const id = useId();
  const described = [hint ? `${id}-hint` : null, error ? `${id}-error` : null].filter(Boolean).join(" ");
  return (
    <Context value={{ id, describedBy: described || undefined, invalid: Boolean(error) }}>
      <div className={clsx("flex min-w-0 flex-col gap-1.5", className)}>
        <div className={clsx("flex items-baseline justify-between gap-2", hideLabel && "sr-only")}>
          <label htmlFor={id} className="text-13 font-medium text-ink">
            {label}
          </label>
          {note ? <span className="text-12 text-ink-3">{note}</span> : null}
        </div>
        {children}
        {hint ? (
          <p id={`${id}-hint`} className="text-12 wrap-anywhere text-ink-3">
            {hint}
          </p>
        ) : null}
        <div aria-live="polite" className={error ? undefined : "hidden"}>
          {error ? (
            <p id={`${id}-error`} className="flex items-start gap-1.5 text-12 text-danger-text">
              <CircleAlert aria-hidden className="mt-0.5 size-3.5 shrink-0" />
              {/* What the server says of a field begins in the middle of a sentence. */}
              <span className="min-w-0 wrap-anywhere first-letter:uppercase">{error}</span>
            </p>
          ) : null}
        </div>
      </div>
    </Context>
  );
}

export const controlClass =
  "w-full min-w-0 rounded-md border border-field-line bg-surface text-ink shadow-1 transition-colors duration-100 hover:border-ink-3 " +
  "focus-visible:outline-2 focus-visible:-outline-offset-1 aria-invalid:border-danger off:bg-sunken off:text-ink-3 off:border-line";

export interface InputProps extends Omit<ComponentProps<"input">, "size" | "onChange"> {
  onChange: (text: string) => void;
  size?: "md" | "lg";
  mono?: boolean;
  /** Fixed text in front, inside the frame. */
  prefix?: string;
  /** Fixed text behind, inside the frame. */
  suffix?: string;
  icon?: ReactNode;
}

// iOS zooms into a page when a focused input is smaller than 16 px.
const touch = "pointer-coarse:text-16";

/** A line of text. The browser fills in only what it is told what it is. */
export function Input({ size = "md", mono, prefix, suffix, icon, className, onChange, ...rest }: InputProps) {
  const field = use(Context);
  const attributes = {
    id: field?.id,
    "aria-describedby": field?.describedBy,
    "aria-invalid": field?.invalid || undefined,
    spellCheck: false,
    autoComplete: "off",
    ...rest,
    onChange: (event: ChangeEvent<HTMLInputElement>) => onChange(event.target.value),
  };
  const height = size === "lg" ? "h-10 text-14" : "h-8 text-13";
  if (!prefix && !suffix && !icon) {
    return (
      <input
        {...attributes}
        className={clsx(controlClass, height, touch, "px-2.5", mono && "font-mono", className)}
      />
    );
  }
  return (
    <div
      className={clsx(
        "flex min-w-0 items-center overflow-hidden rounded-md border bg-surface shadow-1 focus-within:outline-2 focus-within:-outline-offset-1 focus-within:outline-ring hover:border-ink-3",
        field?.invalid ? "border-danger" : "border-field-line",
        height,
        className,
      )}
    >
      {icon ? <span className="pl-2.5 text-ink-3 [&_svg]:size-4">{icon}</span> : null}
      {prefix ? <span className="pl-2.5 text-ink-3 whitespace-nowrap">{prefix}</span> : null}
      <input
        {...attributes}
        className={clsx(
          "h-full w-full min-w-0 bg-transparent outline-none",
          touch,
          icon ? "px-2" : prefix ? "pr-2.5" : "px-2.5",
          mono && "font-mono",
        )}
      />
      {suffix ? <span className="pr-2.5 text-ink-3 whitespace-nowrap">{suffix}</span> : null}
    </div>
  );
}

interface TextareaProps extends Omit<ComponentProps<"textarea">, "onChange"> {
  onChange: (text: string) => void;
}

export function Textarea({ className, onChange, ...rest }: TextareaProps) {
  const field = use(Context);
  return (
    <textarea
      id={field?.id}
      aria-describedby={field?.describedBy}
      aria-invalid={field?.invalid || undefined}
      spellCheck={false}
      {...rest}
      onChange={(event) => onChange(event.target.value)}
      className={clsx(controlClass, touch, "min-h-24 px-2.5 py-2 font-mono text-13", className)}
    />
  );
}

interface NativeSelectProps extends Omit<ComponentProps<"select">, "onChange" | "size"> {
  value: string;
  onChange: (value: string) => void;
  icon?: ReactNode;
}

/** The browser's own select: light, and at home on a phone. With descriptions: Choice. */
export function NativeSelect({ value, onChange, icon, className, children, ...rest }: NativeSelectProps) {
  const field = use(Context);
  return (
    <div className={clsx("relative", className)}>
      {icon ? (
        <span className="pointer-events-none absolute top-2 left-2.5 text-ink-3 [&_svg]:size-4">{icon}</span>
      ) : null}
      <select
        id={field?.id}
        aria-describedby={field?.describedBy}
        aria-invalid={field?.invalid || undefined}
        {...rest}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        className={clsx(controlClass, touch, "h-8 appearance-none pr-7 text-13", icon ? "pl-8" : "pl-2.5")}
      >
        {children}
      </select>
      <ChevronDown
        aria-hidden
        className="pointer-events-none absolute top-2.25 right-2 size-3.5 text-ink-3"
      />
    </div>
  );
}
