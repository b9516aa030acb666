import { useQueryClient } from "@tanstack/react-query";
import { Outlet, useNavigate, useParams, useRouteContext, useRouterState } from "@tanstack/react-router";
import { ClipboardCopy, Keyboard, Layers, Menu as MenuIcon, Monitor, Moon, Search, Sun } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { Mark } from "~/components/logo";
import { Framed } from "~/components/problem";
import { IconButton } from "~/components/ui/button";
import { Kbd } from "~/components/ui/kbd";
import { roleNames } from "~/data/access";
import { LiveProvider, useLive } from "~/data/live";
import { reads } from "~/data/queries";
import { useIdle } from "~/lib/idle";
import { recentNamespace, rememberScope } from "~/lib/recent";
import { useShortcuts } from "~/lib/shortcuts";
import { setTheme } from "~/lib/theme";
import { type Destination, destinations } from "~/pages";
import { CopyAsProvider, useEquivalents } from "./copy-as";
import { LiveStatus } from "./live-status";
import { BottomNav, SideNav } from "./nav";
import type { Command, CommandGroup } from "./palette";
import { NamespaceSwitcher, TenantSwitcher } from "./switchers";
import { UserMenu } from "./user-menu";

// Opened on demand, loaded on demand.
const NoNamespace = lazy(async () => ({ default: (await import("./absent")).NoNamespace }));
const Palette = lazy(() => import("./palette"));
const ShortcutsSheet = lazy(() => import("./shortcuts-sheet"));
const CopyAsDialog = lazy(() => import("./copy-as-dialog"));
const NavSheet = lazy(() => import("./nav-sheet"));
const TenantBanner = lazy(() => import("~/features/billing/tenant-banner"));

const PALETTE_QUEUES = 20;

/** The frame of every page of a tenant: navigation, live stream, palette. */
export function Shell() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { namespace } = useParams({ strict: false });
  const frame = <Frame tenant={tenant} namespace={namespace ?? recentNamespace(tenant) ?? "default"} />;
  return (
    <CopyAsProvider>
      {namespace ? (
        <LiveProvider key={`${tenant}/${namespace}`} scope={{ tenant, namespace }}>
          {frame}
        </LiveProvider>
      ) : (
        frame
      )}
    </CopyAsProvider>
  );
}

function Frame({ tenant, namespace }: { tenant: string; namespace: string }) {
  const { access, identity } = useRouteContext({ from: "/$tenant" });
  const inSettings = useParams({ strict: false }).namespace === undefined;
  const navigate = useNavigate();
  const live = useLive();
  const absent = live?.status === "absent";
  const there = live?.status === "live";
  const client = useQueryClient();
  const hasCopyAs = useEquivalents() !== null;
  const idle = useIdle();
  const [palette, setPalette] = useState(false);
  const [query, setQuery] = useState("");
  const [sheet, setSheet] = useState(false);
  const [copyAs, setCopyAs] = useState(false);
  const [drawer, setDrawer] = useState(false);
  const email = identity.user?.email ?? identity.key?.name ?? "";

  // Only one that exists: the next visit starts there.
  useEffect(() => {
    if (there) rememberScope(tenant, namespace);
  }, [there, tenant, namespace]);

  function go({ path }: Destination) {
    void navigate({ to: path, params: { tenant, namespace } });
  }

  function openPalette() {
    setQuery("");
    setPalette(true);
  }

  useShortcuts({
    "mod+k": openPalette,
    "?": () => setSheet(true),
    ".": () => setCopyAs(true),
    p: () => live?.setPaused(!live.paused),
    "/": focusFilter,
    ...Object.fromEntries(destinations.map((destination) => [destination.shortcut, () => go(destination)])),
  });

  // Of thousands of queues the palette holds those that fit what was typed.
  function queueCommands(): Command[] {
    const queues = client.getQueryData(reads.queues({ tenant, namespace }).queryKey) ?? [];
    const wanted = query.trim().toLowerCase();
    return queues
      .filter((queue) => `jobs in ${queue.name}`.toLowerCase().includes(wanted))
      .slice(0, PALETTE_QUEUES)
      .map((queue) => ({
        value: `jobs in ${queue.name}`,
        label: `Jobs in ${queue.name}`,
        icon: <Layers aria-hidden />,
        run: () =>
          void navigate({
            to: "/$tenant/$namespace/jobs",
            params: { tenant, namespace },
            search: { queue: queue.name },
          }),
      }));
  }

  const groups: CommandGroup[] = !palette
    ? []
    : [
        {
          value: "Go to",
          items: destinations.map((destination) => ({
            value: destination.path,
            label: destination.title,
            icon: <destination.icon aria-hidden />,
            shortcut: destination.shortcut,
            run: () => go(destination),
          })),
        },
        { value: "Queues", items: queueCommands() },
        {
          value: "Do",
          items: [
            {
              value: "copy-as",
              label: "Copy this page as curl, CLI or Terraform",
              icon: <ClipboardCopy aria-hidden />,
              shortcut: ".",
              run: () => setCopyAs(true),
            },
            {
              value: "shortcuts",
              label: "Keyboard shortcuts",
              icon: <Keyboard aria-hidden />,
              shortcut: "?",
              run: () => setSheet(true),
            },
            {
              value: "theme-light",
              label: "Theme: light",
              icon: <Sun aria-hidden />,
              run: () => setTheme("light"),
            },
            {
              value: "theme-dark",
              label: "Theme: dark",
              icon: <Moon aria-hidden />,
              run: () => setTheme("dark"),
            },
            {
              value: "theme-system",
              label: "Theme: system",
              icon: <Monitor aria-hidden />,
              run: () => setTheme("system"),
            },
          ],
        },
      ];

  function onText(text: string): Command[] {
    if (/^job_[0-9A-Za-z]+$/.test(text)) {
      return [
        {
          value: `job:${text}`,
          label: `Open job ${text}`,
          run: () =>
            void navigate({ to: "/$tenant/$namespace/jobs/$job", params: { tenant, namespace, job: text } }),
        },
      ];
    }
    if (/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(text)) {
      return [
        {
          value: `queue:${text}`,
          label: `Show jobs in ${text}`,
          run: () =>
            void navigate({
              to: "/$tenant/$namespace/jobs",
              params: { tenant, namespace },
              search: { queue: text },
            }),
        },
      ];
    }
    return [];
  }

  return (
    <div className="flex min-h-dvh">
      <a
        href="#main"
        className="fixed top-2 left-2 z-60 -translate-y-20 rounded-md bg-primary px-3 py-2 text-13 font-medium text-primary-on focus:translate-y-0"
      >
        Skip to content
      </a>

      <aside
        aria-label="Sidebar"
        className="sticky top-0 flex h-dvh w-58 shrink-0 flex-col gap-3 border-r border-line bg-sunken/60 px-3 py-3 max-lg:hidden"
      >
        <div className="flex flex-col gap-0.5">
          <TenantSwitcher tenant={tenant} tenants={identity.tenants} />
          <NamespaceSwitcher tenant={tenant} namespace={namespace} />
        </div>
        <button
          type="button"
          onClick={openPalette}
          className="flex h-8 items-center gap-2 rounded-md border border-line-strong bg-surface px-2 text-13 text-ink-3 shadow-1 hover:border-ink-3 hover:text-ink-2"
        >
          <Search aria-hidden className="size-4" />
          <span className="flex-1 text-left">Search</span>
          <Kbd keys="mod+k" />
        </button>
        <div className="scroll-thin -mx-1 min-h-0 flex-1 overflow-y-auto px-1 pt-1">
          <SideNav tenant={tenant} namespace={namespace} access={access} />
        </div>
        <p className="flex items-center gap-2 px-2 text-11 text-ink-3">
          <Mark className="size-4" />
          {identity.version ? `Corvo ${identity.version}` : "Corvo"}
        </p>
      </aside>

      <div className="flex min-w-0 flex-1 flex-col max-lg:pb-14">
        <header className="sticky top-0 z-20 flex h-12 items-center gap-1 border-b border-line bg-bg/90 px-3 backdrop-blur-sm sm:px-5 lg:px-7">
          <div className="flex min-w-0 flex-1 items-center gap-1 lg:hidden">
            <div className="min-w-0 max-w-40">
              <NamespaceSwitcher tenant={tenant} namespace={namespace} />
            </div>
          </div>
          <p className="hidden min-w-0 flex-1 truncate text-13 text-ink-3 lg:block">
            {tenant} <span aria-hidden>/</span>{" "}
            <span className="text-ink-2">{inSettings ? "Settings" : namespace}</span>
          </p>
          <LiveStatus />
          {hasCopyAs ? (
            <IconButton label="Copy as curl, CLI or Terraform" shortcut="." onClick={() => setCopyAs(true)}>
              <ClipboardCopy aria-hidden />
            </IconButton>
          ) : null}
          <IconButton
            label="Search and commands"
            shortcut="mod+k"
            onClick={openPalette}
            className="lg:hidden"
          >
            <Search aria-hidden />
          </IconButton>
          <UserMenu
            email={email}
            role={`${roleNames(access.roles)} of ${tenant}`}
            onShortcuts={() => setSheet(true)}
          />
        </header>
        <main id="main" tabIndex={-1} className="min-w-0 flex-1 outline-none">
          {idle ? (
            <Suspense>
              <TenantBanner tenant={tenant} access={access} />
            </Suspense>
          ) : null}
          <Framed value={true}>
            {absent ? (
              <Suspense>
                <NoNamespace tenant={tenant} namespace={namespace} />
              </Suspense>
            ) : (
              <Outlet />
            )}
          </Framed>
        </main>
      </div>

      <Announcer />
      <BottomNav
        tenant={tenant}
        namespace={namespace}
        more={
          <button
            type="button"
            onClick={() => setDrawer(true)}
            aria-haspopup="dialog"
            className="flex h-14 flex-col items-center justify-center gap-0.5 text-11 font-medium text-ink-3 focus-visible:-outline-offset-2"
          >
            <MenuIcon aria-hidden className="size-5" />
            More
          </button>
        }
      />
      <Suspense>
        {drawer ? (
          <NavSheet
            onClose={() => setDrawer(false)}
            tenant={tenant}
            namespace={namespace}
            tenants={identity.tenants}
            access={access}
          />
        ) : null}
        {palette ? (
          <Palette
            onOpenChange={setPalette}
            groups={groups}
            onText={onText}
            query={query}
            onQuery={setQuery}
          />
        ) : null}
        {sheet ? <ShortcutsSheet open onOpenChange={setSheet} /> : null}
        {copyAs ? <CopyAsDialog open onOpenChange={setCopyAs} /> : null}
      </Suspense>
    </div>
  );
}

/** Text typed next replaces the current filter. */
function focusFilter() {
  const field = document.querySelector<HTMLInputElement>("input[data-filter]");
  field?.focus();
  field?.select();
}

/** Says the title of a page that was navigated to, which a full load would. */
function Announcer() {
  const path = useRouterState({ select: (state) => state.resolvedLocation?.pathname });
  const [title, setTitle] = useState("");
  const first = useRef(path);
  useEffect(() => {
    if (path === first.current) return;
    first.current = undefined;
    const timer = window.setTimeout(() => setTitle(document.title), 150);
    return () => window.clearTimeout(timer);
  }, [path]);
  return (
    <p aria-live="polite" className="sr-only">
      {title}
    </p>
  );
}
