import { Tabs as Base } from "@base-ui/react/tabs";
import { clsx } from "clsx";
import type { ReactNode } from "react";

export interface Tab<V extends string = string> {
  value: V;
  label: ReactNode;
  count?: number;
  content: ReactNode;
}

interface TabsProps<V extends string> {
  tabs: readonly Tab<V>[];
  value: V;
  onChange: (value: V) => void;
  label: string;
  panelClassName?: string;
  /** At the right end of the tab row. */
  end?: ReactNode;
}

/** The value is the caller's, so that it can live in the URL. */
export function Tabs<V extends string>({ tabs, value, onChange, label, panelClassName, end }: TabsProps<V>) {
  return (
    <Base.Root value={value} onValueChange={(next) => onChange(next as V)}>
      <div className="flex items-end justify-between gap-3 border-b border-line">
        <Base.List aria-label={label} className="relative -mb-px flex gap-1 overflow-x-auto px-0.5 pt-0.5">
          {tabs.map((tab) => (
            <Base.Tab
              key={tab.value}
              value={tab.value}
              className="flex h-9 shrink-0 items-center gap-1.5 rounded-t-md border-b-2 border-transparent px-2.5 text-13 font-medium text-ink-2 hover:text-ink focus-visible:-outline-offset-2 data-active:border-accent data-active:text-ink"
            >
              {tab.label}
              {tab.count === undefined ? null : (
                <span className="nums rounded-full bg-muted-soft px-1.5 text-11 text-ink-2">{tab.count}</span>
              )}
            </Base.Tab>
          ))}
        </Base.List>
        {end}
      </div>
      {tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className={clsx("pt-4", panelClassName)}>
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
