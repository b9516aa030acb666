import { Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import type { Access } from "~/data/access";
import { type Destination, destinations } from "~/pages";

/** Every page of a namespace stands below the overview. */
const activeOptions = ({ path }: Destination) => ({
  exact: path === "/$tenant/$namespace",
  includeSearch: false,
});

interface NavProps {
  tenant: string;
  namespace: string;
  access: Access;
  onNavigate?: () => void;
}

export function SideNav({ tenant, namespace, access, onNavigate }: NavProps) {
  return (
    <nav aria-label="Main" className="flex flex-col gap-4">
      {(["Operate", "Build", "Access", "Settings"] as const).map((group) => (
        <div key={group}>
          <div className="px-2 pb-1 text-11 font-medium text-ink-3" id={`nav-${group}`}>
            {group}
          </div>
          <ul aria-labelledby={`nav-${group}`} className="flex flex-col gap-px">
            {destinations
              .filter((destination) => destination.group === group)
              .map((destination) => (
                <li key={destination.path}>
                  <Link
                    to={destination.path}
                    params={{ tenant, namespace }}
                    activeOptions={activeOptions(destination)}
                    onClick={onNavigate}
                    className={clsx(
                      "group relative flex h-8 items-center gap-2.5 rounded-md px-2 text-13 font-medium text-ink-2 transition-colors duration-100 hover:bg-hover hover:text-ink max-lg:h-10",
                      "aria-[current=page]:bg-hover aria-[current=page]:text-ink",
                      !access.canSomewhere(destination.permission) && "text-ink-3",
                    )}
                  >
                    <span
                      aria-hidden
                      className="absolute inset-y-2 left-0 w-0.5 rounded-full bg-accent opacity-0 group-aria-[current=page]:opacity-100"
                    />
                    <destination.icon
                      aria-hidden
                      className="size-4 text-ink-3 group-aria-[current=page]:text-accent-text"
                    />
                    {destination.title}
                  </Link>
                </li>
              ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** The four places that people need on a phone. */
export function BottomNav({
  tenant,
  namespace,
  more,
}: {
  tenant: string;
  namespace: string;
  more: React.ReactNode;
}) {
  return (
    <nav
      aria-label="Main"
      className="fixed inset-x-0 bottom-0 z-30 grid grid-cols-4 border-t border-line bg-surface pb-[env(safe-area-inset-bottom)] lg:hidden"
    >
      {destinations.slice(0, 3).map((destination) => (
        <Link
          key={destination.path}
          to={destination.path}
          params={{ tenant, namespace }}
          activeOptions={activeOptions(destination)}
          className="group flex h-14 flex-col items-center justify-center gap-0.5 text-11 font-medium text-ink-3 aria-[current=page]:text-ink focus-visible:-outline-offset-2"
        >
          <destination.icon aria-hidden className="size-5 group-aria-[current=page]:text-accent-text" />
          {destination.title}
        </Link>
      ))}
      {more}
    </nav>
  );
}
