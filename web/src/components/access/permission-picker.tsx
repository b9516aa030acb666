import { useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { CheckRow } from "~/components/ui/checks";
import { Input } from "~/components/ui/field";
import { SkeletonRows } from "~/components/ui/skeleton";
import { describeError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";

interface PermissionPickerProps {
  value: readonly string[];
  onChange: (permissions: string[]) => void;
  error?: string | undefined;
  /** Why one can't be chosen; undefined if it can. */
  blocked?: (permission: string) => string | undefined;
  readOnly?: boolean;
}

const levels = [
  { level: "tenant", title: "Tenant", about: "Given in the whole tenant only." },
  { level: "namespace", title: "Namespace", about: "Given in the tenant or in single namespaces." },
  { level: "queue", title: "Queue", about: "Given down to single queues." },
] as const;

/** Permissions by the narrowest place at which they can be given, with a search. */
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
  const toggle = (name: string) => {
    if (!chosen.delete(name)) chosen.add(name);
    onChange(permissions.data.filter((info) => chosen.has(info.name)).map((info) => info.name));
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
          className="w-56"
          value={search}
          onChange={setSearch}
        />
      </div>
      {error ? <Banner tone="danger" title={error} /> : null}
      {levels.map(({ level, title, about }) => {
        const rows = found.filter((info) => info.level === level);
        return rows.length === 0 ? null : (
          <fieldset key={level} className="rounded-md border border-line px-3 py-2">
            <legend className="px-1 text-12 font-medium">
              {title} <span className="font-normal text-ink-3">{about}</span>
            </legend>
            <div className="grid gap-x-5 sm:grid-cols-2">
              {rows.map((info) => (
                <CheckRow
                  key={info.name}
                  checked={chosen.has(info.name)}
                  disabled={readOnly || (!chosen.has(info.name) && blocked?.(info.name) !== undefined)}
                  onChange={() => toggle(info.name)}
                  label={<span className="font-mono text-12">{info.name}</span>}
                  description={(!chosen.has(info.name) && blocked?.(info.name)) || info.about}
                />
              ))}
            </div>
          </fieldset>
        );
      })}
      {found.length === 0 ? (
        <p className="py-4 text-center text-13 text-ink-3">No permission matches.</p>
      ) : null}
    </section>
  );
}
