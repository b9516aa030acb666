import { useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { CheckRow } from "~/components/ui/checks";
import { Input } from "~/components/ui/field";
import { SkeletonRows } from "~/components/ui/skeleton";
import { describeError, sentence } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { bySubject, reachOf } from "./subjects";

interface PermissionPickerProps {
  value: readonly string[];
  onChange: (permissions: string[]) => void;
  error?: string | undefined;
  /** Why one can't be chosen; undefined if it can. */
  blocked?: (permission: string) => string | undefined;
  readOnly?: boolean;
}

/** Permissions by what they are about, with a search. */
export function PermissionPicker({ value, onChange, error, blocked, readOnly }: PermissionPickerProps) {
  const permissions = useQuery(principalReads.permissions());
  const [search, setSearch] = useState("");
  if (permissions.error) return <Banner tone="danger" title={describeError(permissions.error)} />;
  if (!permissions.data) return <SkeletonRows rows={6} columns={1} label="Loading permissions" />;
  const wanted = search.trim().toLowerCase();
  const found = permissions.data.filter(({ name, about }) =>
    `${name} ${about}`.toLowerCase().includes(wanted),
  );
  const chosen = new Set(value);
  // In the order of the list, whatever the order of the clicks.
  const choose = (names: ReadonlySet<string>) =>
    onChange(permissions.data.filter((info) => names.has(info.name)).map((info) => info.name));
  const toggle = (name: string) => {
    if (!chosen.delete(name)) chosen.add(name);
    choose(chosen);
  };
  return (
    <section aria-label="Permissions" className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h3 className="text-13 font-medium">
          Permissions <span className="nums font-normal text-ink-3">{value.length} chosen</span>
        </h3>
        <Input
          aria-label="Find a permission"
          placeholder="Find a permission"
          icon={<Search aria-hidden />}
          className="w-56 max-sm:w-full"
          // In a form, Enter would send it.
          onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
          value={search}
          onChange={setSearch}
        />
      </div>
      {error ? <Banner tone="danger" title={error} /> : null}
      {bySubject(found).map(({ title, permissions: rows }) => (
        <fieldset
          key={title}
          aria-label={title}
          className="min-w-0 rounded-md border border-line px-3 pt-1 pb-2"
        >
          <legend className="-mx-1 flex items-center gap-1 px-1 text-12 font-medium">
            {title}
            {readOnly || rows.length < 2 ? null : (
              <ChooseAll
                title={title}
                free={rows.filter(({ name }) => !blocked?.(name)).map(({ name }) => name)}
                chosen={chosen}
                onChange={choose}
              />
            )}
          </legend>
          <div className="grid gap-x-5 sm:grid-cols-2">
            {rows.map((info) => (
              <CheckRow
                key={info.name}
                checked={chosen.has(info.name)}
                disabled={readOnly || (!chosen.has(info.name) && blocked?.(info.name) !== undefined)}
                onChange={() => toggle(info.name)}
                label={<span className="font-mono text-12">{info.name}</span>}
                description={
                  (!chosen.has(info.name) && blocked?.(info.name)) ||
                  `${sentence(info.about)} ${reachOf(info)}`
                }
              />
            ))}
          </div>
        </fieldset>
      ))}
      {found.length === 0 ? (
        <p className="py-4 text-center text-13 text-ink-3">No permission matches.</p>
      ) : null}
    </section>
  );
}

interface ChooseAllProps {
  title: string;
  /** Those that can be chosen. */
  free: readonly string[];
  chosen: ReadonlySet<string>;
  onChange: (names: ReadonlySet<string>) => void;
}

/** Chooses all of a subject, or none if all are. */
function ChooseAll({ title, free, chosen, onChange }: ChooseAllProps) {
  const all = free.length > 0 && free.every((name) => chosen.has(name));
  const word = all ? "Clear" : "Choose all";
  return (
    <Button
      size="sm"
      variant="ghost"
      aria-label={`${word}: ${title}`}
      blockedBecause={free.length === 0 ? "You have none of these yourself." : undefined}
      onClick={() =>
        onChange(new Set(all ? [...chosen].filter((name) => !free.includes(name)) : [...chosen, ...free]))
      }
    >
      {word}
    </Button>
  );
}
