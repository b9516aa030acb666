import { useState } from "react";
import { Field, Input, NativeSelect } from "~/components/ui/field";
import { ageProblem, ages, ageText, parseAge, typedAge } from "~/lib/retention";

interface AgeFieldProps {
  label: string;
  /** Seconds; 0 is not set here, undefined is not readable. */
  value: number | undefined;
  onChange: (seconds: number | undefined) => void;
  /** What counts if nothing is set here, such as "Plan default (7 d)". */
  fallback: string;
  /** The most that the plan keeps, in seconds; 0 is no maximum. */
  max?: number;
  error?: string | undefined;
}

/** How long something is kept: one of the usual ages, another one, or what the next place says. */
export function AgeField({ label, value, onChange, fallback, max = 0, error }: AgeFieldProps) {
  const offered = ages.filter((age) => !max || age <= max);
  const [custom, setCustom] = useState(value !== 0 && value !== undefined && !offered.includes(value));
  const [text, setText] = useState(value ? typedAge(value) : "");

  function choose(chosen: string) {
    setCustom(chosen === "custom");
    if (chosen === "custom") onChange(parseAge(text));
    else {
      setText(typedAge(Number(chosen)));
      onChange(Number(chosen));
    }
  }

  function type(next: string) {
    setText(next);
    onChange(parseAge(next));
  }

  return (
    <div className="grid min-w-0 grid-cols-[1fr_auto] items-end gap-2">
      <Field
        label={label}
        hint={max ? `At most ${ageText(max)}.` : undefined}
        error={(custom ? ageProblem(value, max) : undefined) ?? error}
        className={custom ? "" : "col-span-2"}
      >
        <NativeSelect value={custom ? "custom" : String(value ?? 0)} onChange={choose}>
          <option value="0">{fallback}</option>
          {offered.map((age) => (
            <option key={age} value={age}>
              {ageText(age)}
            </option>
          ))}
          <option value="custom">Custom</option>
        </NativeSelect>
      </Field>
      {custom ? (
        <Input
          aria-label={`${label}, custom`}
          className="w-24!"
          placeholder="45 d"
          value={text}
          onChange={type}
        />
      ) : null}
    </div>
  );
}
