import { Dialog } from "~/components/ui/dialog";
import { Kbd } from "~/components/ui/kbd";
import { destinations } from "~/pages";

const groups: readonly { title: string; rows: readonly (readonly [string, string])[] }[] = [
  {
    title: "Anywhere",
    rows: [
      ["mod+k", "Commands and search"],
      ["?", "Keyboard shortcuts"],
      [".", "Copy as curl, CLI, Terraform"],
      ["/", "Filter"],
      ["p", "Pause or resume live updates"],
    ],
  },
  {
    title: "Go to",
    rows: destinations.map((destination) => [destination.shortcut, destination.title] as const),
  },
  {
    title: "Lists",
    rows: [
      ["j", "Next row"],
      ["k", "Previous row"],
      ["enter", "Open"],
      ["n", "Show new rows"],
    ],
  },
  {
    title: "Job",
    rows: [
      ["r", "Retry or run now"],
      ["c", "Cancel"],
      ["h", "Hold"],
      ["m", "Move"],
      ["a", "Approve"],
      ["x", "Reject"],
      ["d", "Delete"],
      ["u", "Back to the list"],
    ],
  },
];

export default function ShortcutsSheet({
  open,
  onOpenChange,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="Keyboard shortcuts" size="md" readable>
      <div className="grid gap-x-8 gap-y-5 pb-3 sm:grid-cols-2">
        {groups.map((group) => (
          <section key={group.title}>
            <h3 className="pb-1.5 text-12 font-medium text-ink-3">{group.title}</h3>
            <dl className="flex flex-col">
              {group.rows.map(([keys, what]) => (
                <div key={keys} className="flex min-h-7 items-center justify-between gap-4 text-13">
                  <dt>{what}</dt>
                  <dd>
                    <span className="sr-only">
                      {keys.replace("mod", "control or command").replace("+", " and ")}
                    </span>
                    <Kbd keys={keys} />
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
