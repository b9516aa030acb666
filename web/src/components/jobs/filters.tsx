import { useQuery } from "@tanstack/react-query";
import { clsx } from "clsx";
import { CalendarClock, Tag, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Button } from "~/components/ui/button";
import { controlClass, NativeSelect } from "~/components/ui/field";
import { StateIcon } from "~/components/ui/state-badge";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { isFiltered, type JobSearch, type Within, withins } from "~/lib/job-search";
import { type JobState, jobStates, stateWord } from "~/lib/states";
import { timeLocal } from "~/lib/time";
import { QueueChoice } from "./queue-choice";

interface FiltersProps {
  scope: Scope;
  search: JobSearch;
  onChange: (change: Partial<JobSearch>) => void;
  onClear: () => void;
}

const withinWords: Record<Within, string> = {
  "15m": "Last 15 minutes",
  "1h": "Last hour",
  "24h": "Last 24 hours",
  "7d": "Last 7 days",
};
// Cancelling is short; nobody filters by it.
const offered = jobStates.filter((state) => state !== "cancelling");

/** The filters of the jobs list. All of them are in the URL. */
export function Filters({ scope, search, onChange, onClear }: FiltersProps) {
  const queues = useQuery(reads.queues(scope));
  const names = (queues.data ?? []).map((queue) => queue.name);

  function toggle(state: JobState) {
    const chosen = new Set(search.state ?? []);
    if (!chosen.delete(state)) chosen.add(state);
    onChange({ state: chosen.size > 0 ? offered.filter((known) => chosen.has(known)) : undefined });
  }

  return (
    <div role="search" aria-label="Filter jobs" className="flex flex-col gap-2.5">
      <fieldset className="-mx-1 flex min-w-0 gap-1.5 overflow-x-auto p-1 [scrollbar-width:none] sm:flex-wrap sm:overflow-visible">
        <legend className="sr-only">State</legend>
        {offered.map((state) => {
          const on = search.state?.includes(state) ?? false;
          return (
            <button
              key={state}
              type="button"
              aria-pressed={on}
              onClick={() => toggle(state)}
              className={clsx(
                "inline-flex h-7 shrink-0 items-center gap-1.5 rounded-full border px-2.5 text-12 font-medium transition-colors duration-100 [&_svg]:size-3.5",
                on
                  ? "border-accent bg-accent-soft text-accent-text"
                  : "border-line-strong bg-surface text-ink-2 hover:border-ink-3 hover:text-ink",
              )}
            >
              <StateIcon state={state} />
              {stateWord(state)}
            </button>
          );
        })}
      </fieldset>
      <div className="flex flex-wrap items-center gap-2">
        <QueueChoice names={names} value={search.queue} onChange={(queue) => onChange({ queue })} />
        <TagFilter key={search.tag} value={search.tag} onChange={(tag) => onChange({ tag })} />
        <NativeSelect
          aria-label="Created"
          icon={<CalendarClock aria-hidden />}
          className="max-sm:flex-1 sm:w-44"
          value={search.within ?? ""}
          onChange={(within) =>
            onChange({
              within: (within || undefined) as Within | undefined,
              after: undefined,
              before: undefined,
            })
          }
        >
          <option value="">Any time</option>
          {withins.map((within) => (
            <option key={within} value={within}>
              {withinWords[within]}
            </option>
          ))}
        </NativeSelect>
        {search.after ? (
          <TimeChip label="after" at={search.after} onRemove={() => onChange({ after: undefined })} />
        ) : null}
        {search.before ? (
          <TimeChip label="before" at={search.before} onRemove={() => onChange({ before: undefined })} />
        ) : null}
        {isFiltered(search) ? (
          <Button variant="ghost" size="sm" icon={<X aria-hidden />} onClick={onClear}>
            Clear
          </Button>
        ) : null}
      </div>
    </div>
  );
}

function TagFilter({
  value,
  onChange,
}: {
  value: string | undefined;
  onChange: (tag: string | undefined) => void;
}) {
  const [text, setText] = useState(value ?? "");
  const [wrong, setWrong] = useState(false);
  function submit(event: FormEvent) {
    event.preventDefault();
    const tag = text.trim();
    const bad = tag !== "" && !/^[^:]+:.+$/.test(tag);
    setWrong(bad);
    if (!bad) onChange(tag === "" ? undefined : tag);
  }
  return (
    <form onSubmit={submit} className="relative max-sm:flex-1">
      <Tag aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-ink-3" />
      <input
        aria-label="Tag, as key:value"
        aria-invalid={wrong || undefined}
        aria-describedby={wrong ? "tag-problem" : undefined}
        placeholder="Tag, key:value"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setWrong(false);
        }}
        onBlur={submit}
        className={clsx(controlClass, "h-8 pr-2 pl-8 text-13 sm:w-52 pointer-coarse:text-16")}
      />
      {wrong ? (
        <p
          id="tag-problem"
          role="alert"
          className="absolute top-full left-0 z-20 mt-1 w-max max-w-[calc(100vw-2rem)] rounded-md bg-danger-soft px-2 py-1 text-12 text-danger-text shadow-2"
        >
          Use key:value, for example customer:acme.
        </p>
      ) : null}
    </form>
  );
}

function TimeChip({ label, at, onRemove }: { label: string; at: string; onRemove: () => void }) {
  return (
    <span className="inline-flex h-8 items-center gap-1 rounded-md border border-accent bg-accent-soft pr-1 pl-2.5 text-12 text-accent-text">
      {label} <span className="nums">{timeLocal(new Date(at))}</span>
      <button
        type="button"
        aria-label={`Remove filter ${label}`}
        onClick={onRemove}
        className="grid size-6 place-items-center rounded-sm hover:bg-surface/60"
      >
        <X aria-hidden className="size-3.5" />
      </button>
    </span>
  );
}
