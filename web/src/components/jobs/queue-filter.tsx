import { Combobox } from "~/components/ui/combobox";

interface QueueFilterProps {
  names: readonly string[];
  value: string | undefined;
  onChange: (queue: string | undefined) => void;
}

/** A module of its own: what it needs is large and not needed to see the list. */
export default function QueueFilter({ names, value, onChange }: QueueFilterProps) {
  return (
    <div className="w-full sm:w-56" data-queue-filter>
      <Combobox
        label="Queue"
        placeholder="any queue"
        empty="No queue of that name."
        options={names.map((name) => ({ value: name, label: name }))}
        value={value ?? null}
        onChange={(queue) => onChange(queue ?? undefined)}
      />
    </div>
  );
}
