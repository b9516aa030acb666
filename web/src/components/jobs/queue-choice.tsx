import { clsx } from "clsx";
import { ChevronsUpDown } from "lucide-react";
import { type ComponentType, useState } from "react";
import { controlClass } from "~/components/ui/field";
import type { QueueFilterProps } from "./queue-filter";

/**
 * A field that becomes the list of queues when somebody reaches for it: the list's code is
 * half as large as the page of jobs, and most visits do not need it.
 */
export function QueueChoice({ names, value, onChange }: QueueFilterProps) {
  const [list, setList] = useState<{ List: ComponentType<QueueFilterProps>; typed: string | undefined }>();
  async function become(field: HTMLInputElement) {
    const { default: List } = await import("./queue-filter");
    // Text typed meanwhile is kept in the list.
    setList({ List, typed: field.value === (value ?? "") ? undefined : field.value });
  }
  if (list)
    return <list.List names={names} value={value} onChange={onChange} begun={{ typed: list.typed }} />;
  return (
    <span className="relative w-full sm:w-56">
      <input
        data-filter
        role="combobox"
        aria-label="Queue"
        aria-expanded={false}
        placeholder="Any queue"
        // Another value from the URL begins a new field.
        key={value}
        defaultValue={value}
        onFocus={(event) => void become(event.currentTarget)}
        className={clsx(controlClass, "h-8 pr-8 pl-2.5 text-13 pointer-coarse:text-16")}
      />
      <ChevronsUpDown
        aria-hidden
        className="pointer-events-none absolute top-2.25 right-2.25 size-3.5 text-ink-3"
      />
    </span>
  );
}
