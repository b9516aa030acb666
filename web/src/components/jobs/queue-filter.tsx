import { Combobox } from "~/components/ui/combobox";

export interface QueueFilterProps {
  names: readonly string[];
  value: string | undefined;
  onChange: (queue: string | undefined) => void;
  /** Replaces the focused field, with the text typed so far. */
  begun?: { typed: string | undefined };
}

/** A module of its own: its code is large and not needed to see the list. */
export default function QueueFilter({ names, value, onChange, begun }: QueueFilterProps) {
  return (
    <div className="w-full sm:w-56">
      <Combobox
        label="Queue"
        placeholder="Any queue"
        empty="No queue matches."
        options={names.map((name) => ({ value: name, label: name }))}
        value={value ?? null}
        onChange={(queue) => onChange(queue ?? undefined)}
        filterKey
        begun={begun}
      />
    </div>
  );
}
