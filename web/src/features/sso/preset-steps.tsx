import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { Code } from "~/components/ui/code";
import { Field } from "~/components/ui/field";
import { oidcPresets } from "./presets";

/** What to do at the provider of one's choice. */
export function PresetSteps() {
  const [chosen, setChosen] = useState("");
  const preset = oidcPresets.find(({ value }) => value === chosen) ?? oidcPresets[0];
  return (
    <>
      <Field label="Provider" className="sm:w-1/2">
        <Choice
          options={oidcPresets.map(({ value, label }) => ({ value, label }))}
          value={chosen}
          onChange={setChosen}
        />
      </Field>
      <ol className="ml-4 list-decimal text-13 text-ink-2">
        {preset?.steps.map((step) => (
          <li key={step} className="mb-1">
            {step}
          </li>
        ))}
        <li>
          Enter the issuer <Code>{preset?.issuer}</Code>, the client ID and the secret in the next step.{" "}
          {preset?.here}
        </li>
      </ol>
    </>
  );
}
