import { Autocomplete } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { Search } from "lucide-react";
import type { ReactNode } from "react";
import { Kbd } from "~/components/ui/kbd";

export interface Command {
  value: string;
  label: string;
  icon?: ReactNode;
  shortcut?: string;
  run: () => void;
}

export interface CommandGroup {
  value: string;
  items: Command[];
}

interface PaletteProps {
  onOpenChange: (open: boolean) => void;
  groups: CommandGroup[];
  /** What to offer for text that names no command: a job id, a queue. */
  onText: (text: string) => Command[];
  query: string;
  onQuery: (query: string) => void;
}

/** ⌘K: go anywhere, do anything, find a job by its id. */
export default function Palette({ onOpenChange, groups, onText, query, onQuery }: PaletteProps) {
  const found = query.trim() ? onText(query.trim()) : [];
  // Commands first: a word is more often the name of a page than of a queue.
  const items: CommandGroup[] = found.length > 0 ? [...groups, { value: "Find", items: found }] : groups;
  return (
    <Dialog.Root open onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-50 bg-overlay transition-opacity duration-100 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Dialog.Viewport className="fixed inset-0 z-50 flex items-start justify-center px-3 pt-[10vh]">
          <Dialog.Popup
            data-modal
            aria-label="Command palette"
            className="flex max-h-[min(32rem,76dvh)] w-full max-w-xl flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-3 transition-[opacity,transform] duration-100 data-ending-style:scale-98 data-ending-style:opacity-0 data-starting-style:scale-98 data-starting-style:opacity-0"
          >
            <Autocomplete.Root
              open
              inline
              items={items}
              value={query}
              onValueChange={onQuery}
              autoHighlight="always"
              keepHighlight
              itemToStringValue={(item: unknown) => (item as Command).label}
            >
              <Autocomplete.InputGroup className="flex items-center gap-2.5 border-b border-line px-4">
                <Search aria-hidden className="size-4 shrink-0 text-ink-3" />
                <Autocomplete.Input
                  aria-label="Search, or paste a job ID"
                  placeholder="Search, or paste a job ID"
                  className="h-12 w-full bg-transparent text-14 outline-none pointer-coarse:text-16"
                />
                <Kbd keys="esc" />
              </Autocomplete.InputGroup>
              <Dialog.Close className="sr-only">Close command palette</Dialog.Close>
              <Autocomplete.Empty>
                <div className="px-4 py-8 text-center text-13 text-ink-3">
                  No results. Paste a full job ID to open it.
                </div>
              </Autocomplete.Empty>
              <Autocomplete.List className="scroll-thin min-h-0 overflow-y-auto overscroll-contain p-1.5 empty:p-0">
                {(group: CommandGroup) => (
                  <Autocomplete.Group key={group.value} items={group.items} className="not-last:mb-1.5">
                    <Autocomplete.GroupLabel className="px-2.5 pt-1.5 pb-1 text-11 font-medium text-ink-3">
                      {group.value}
                    </Autocomplete.GroupLabel>
                    <Autocomplete.Collection>
                      {(item: Command) => (
                        <Autocomplete.Item
                          key={item.value}
                          value={item}
                          onClick={() => {
                            onOpenChange(false);
                            item.run();
                          }}
                          className="flex min-h-9 items-center gap-2.5 rounded-md px-2.5 text-13 outline-none select-none data-highlighted:bg-hover [&_svg]:size-4 [&_svg]:text-ink-3"
                        >
                          {item.icon}
                          <span className="min-w-0 flex-1 truncate">{item.label}</span>
                          {item.shortcut ? <Kbd keys={item.shortcut} /> : null}
                        </Autocomplete.Item>
                      )}
                    </Autocomplete.Collection>
                  </Autocomplete.Group>
                )}
              </Autocomplete.List>
            </Autocomplete.Root>
          </Dialog.Popup>
        </Dialog.Viewport>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
