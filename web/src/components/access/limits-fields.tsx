import { Checks } from "~/components/ui/checks";
import { Choice } from "~/components/ui/choice";
import { Field, Input } from "~/components/ui/field";
import type { Option } from "~/components/ui/option";
import type { Limits } from "./limits";
import { PermissionPicker } from "./permission-picker";

interface LimitsFieldsProps {
  value: Limits;
  onChange: (limits: Limits) => void;
  /** Undefined: the namespaces are asked for elsewhere. */
  namespaces?: readonly Option[];
  /** What the server says is wrong about a field or one of its values. */
  wrongAbout: (field: string) => string | undefined;
}

/** What narrows a key, or the keys of a trust. */
export function LimitsFields({ value, onChange, namespaces, wrongAbout }: LimitsFieldsProps) {
  const set = (part: Partial<Limits>) => onChange({ ...value, ...part });
  return (
    <>
      {namespaces ? (
        <Checks
          dense
          label="Namespaces"
          hint="Leave all of them unchecked for every namespace."
          options={namespaces}
          value={value.namespaces}
          onChange={(next) => set({ namespaces: next })}
          error={wrongAbout("namespaces")}
        />
      ) : null}
      <Field
        label="Queues"
        note="optional"
        hint="Names, or beginnings with *. Leave empty for every queue."
        error={wrongAbout("queues")}
      >
        <Input
          mono
          placeholder="emails.*, reports"
          value={value.queues}
          onChange={(queues) => set({ queues })}
        />
      </Field>
      <Field
        label="Networks"
        note="optional"
        hint="Works from these addresses only. Leave empty for any."
        error={wrongAbout("cidrs")}
      >
        <Input mono placeholder="203.0.113.0/24" value={value.cidrs} onChange={(cidrs) => set({ cidrs })} />
      </Field>
      <Field label="Can do" error={value.all ? wrongAbout("permissions") : undefined}>
        <Choice
          options={[
            { value: "all", label: "Everything that its owner can do" },
            { value: "some", label: "Only chosen permissions", description: "Of those that its owner has." },
          ]}
          value={value.all ? "all" : "some"}
          onChange={(next) => set({ all: next === "all" })}
        />
      </Field>
      {value.all ? null : (
        <PermissionPicker
          value={value.permissions}
          onChange={(permissions) => set({ permissions })}
          error={wrongAbout("permissions")}
        />
      )}
    </>
  );
}
