import { Link } from "@tanstack/react-router";
import { clsx } from "clsx";
import {
  Boxes,
  CalendarClock,
  ChartColumn,
  CirclePause,
  Compass,
  Cpu,
  KeyRound,
  Layers,
  ListTree,
  type LucideIcon,
  OctagonX,
  Package,
  ScrollText,
  ShieldCheck,
  Users,
  Workflow,
} from "lucide-react";
import type { Access } from "~/data/access";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";

/** A page that tenant and namespace alone lead to. */
export type Place =
  | "/$tenant/$namespace"
  | "/$tenant/$namespace/queues"
  | "/$tenant/$namespace/jobs"
  | "/$tenant/$namespace/workers"
  | "/$tenant/$namespace/schedules"
  | "/$tenant/$namespace/batches"
  | "/$tenant/$namespace/chains"
  | "/$tenant/$namespace/dead"
  | "/$tenant/$namespace/approvals"
  | "/$tenant/$namespace/usage"
  | "/$tenant/$namespace/keys"
  | "/$tenant/settings/namespaces"
  | "/$tenant/settings/members"
  | "/$tenant/settings/sso"
  | "/$tenant/settings/audit";

export interface Destination {
  id: string;
  label: string;
  icon: LucideIcon;
  to: Place;
  shortcut: string;
  /** Without it the page says why it is empty; the link stays. */
  needs: Permission;
  group: "Operate" | "Build" | "Settings";
}

export const destinations: readonly Destination[] = [
  {
    id: "overview",
    label: "Overview",
    icon: Compass,
    to: "/$tenant/$namespace",
    shortcut: "g o",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "queues",
    label: "Queues",
    icon: Layers,
    to: "/$tenant/$namespace/queues",
    shortcut: "g q",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "jobs",
    label: "Jobs",
    icon: ListTree,
    to: "/$tenant/$namespace/jobs",
    shortcut: "g j",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "workers",
    label: "Workers",
    icon: Cpu,
    to: "/$tenant/$namespace/workers",
    shortcut: "g w",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "schedules",
    label: "Schedules",
    icon: CalendarClock,
    to: "/$tenant/$namespace/schedules",
    shortcut: "g c",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "batches",
    label: "Batches",
    icon: Package,
    to: "/$tenant/$namespace/batches",
    shortcut: "g b",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "chains",
    label: "Chains",
    icon: Workflow,
    to: "/$tenant/$namespace/chains",
    shortcut: "g h",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "dead",
    label: "Dead letter",
    icon: OctagonX,
    to: "/$tenant/$namespace/dead",
    shortcut: "g d",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "approvals",
    label: "Approvals",
    icon: CirclePause,
    to: "/$tenant/$namespace/approvals",
    shortcut: "g p",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "usage",
    label: "Usage",
    icon: ChartColumn,
    to: "/$tenant/$namespace/usage",
    shortcut: "g u",
    needs: Permission.JOB_READ,
    group: "Operate",
  },
  {
    id: "keys",
    label: "API keys",
    icon: KeyRound,
    to: "/$tenant/$namespace/keys",
    shortcut: "g k",
    needs: Permission.KEY_READ,
    group: "Build",
  },
  {
    id: "namespaces",
    label: "Namespaces",
    icon: Boxes,
    to: "/$tenant/settings/namespaces",
    shortcut: "g n",
    needs: Permission.NAMESPACE_READ,
    group: "Settings",
  },
  {
    id: "members",
    label: "Members",
    icon: Users,
    to: "/$tenant/settings/members",
    shortcut: "g m",
    needs: Permission.MEMBER_READ,
    group: "Settings",
  },
  {
    id: "sso",
    label: "Single sign-on",
    icon: ShieldCheck,
    to: "/$tenant/settings/sso",
    shortcut: "g s",
    needs: Permission.SSO_READ,
    group: "Settings",
  },
  {
    id: "audit",
    label: "Audit log",
    icon: ScrollText,
    to: "/$tenant/settings/audit",
    shortcut: "g a",
    needs: Permission.AUDIT_READ,
    group: "Settings",
  },
];

interface NavProps {
  tenant: string;
  namespace: string;
  access: Access;
  onNavigate?: () => void;
}

export function SideNav({ tenant, namespace, access, onNavigate }: NavProps) {
  return (
    <nav aria-label="Main" className="flex flex-col gap-4">
      {(["Operate", "Build", "Settings"] as const).map((group) => (
        <div key={group}>
          <div className="px-2 pb-1 text-11 font-medium text-ink-3" id={`nav-${group}`}>
            {group}
          </div>
          <ul aria-labelledby={`nav-${group}`} className="flex flex-col gap-px">
            {destinations
              .filter((destination) => destination.group === group)
              .map((destination) => (
                <li key={destination.id}>
                  <Link
                    to={destination.to}
                    params={{ tenant, namespace }}
                    activeOptions={{ exact: destination.id === "overview", includeSearch: false }}
                    onClick={onNavigate}
                    className={clsx(
                      "group relative flex h-8 items-center gap-2.5 rounded-md px-2 text-13 font-medium text-ink-2 transition-colors duration-100 hover:bg-hover hover:text-ink max-lg:h-10",
                      "aria-[current=page]:bg-hover aria-[current=page]:text-ink",
                      !access.can(destination.needs) && "text-ink-3",
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
                    {destination.label}
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
          key={destination.id}
          to={destination.to}
          params={{ tenant, namespace }}
          activeOptions={{ exact: destination.id === "overview", includeSearch: false }}
          className="group flex h-14 flex-col items-center justify-center gap-0.5 text-11 font-medium text-ink-3 aria-[current=page]:text-ink focus-visible:-outline-offset-2"
        >
          <destination.icon aria-hidden className="size-5 group-aria-[current=page]:text-accent-text" />
          {destination.label}
        </Link>
      ))}
      {more}
    </nav>
  );
}
