import { Link, Outlet, useRouteContext } from "@tanstack/react-router";
import { ArrowLeft, ClipboardCopy, ShieldCheck } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Mark } from "~/components/logo";
import { Framed } from "~/components/problem";
import { CopyAsProvider, useEquivalents } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { buttonClass, IconButton } from "~/components/ui/button";
import { useShortcuts } from "~/lib/shortcuts";

const CopyAsDialog = lazy(() => import("~/components/shell/copy-as-dialog"));

/** The frame of the operators' pages. It looks like no tenant's. */
export function OperatorFrame() {
  return (
    <CopyAsProvider>
      <Frame />
    </CopyAsProvider>
  );
}

const places = [
  { to: "/operator", label: "Tenants" },
  { to: "/operator/plans", label: "Plans" },
  { to: "/operator/reconciliation", label: "Reconciliation" },
] as const;

function Frame() {
  const { operatorRole, tenants, user } = useRouteContext({ from: "/operator" });
  const hasCopyAs = useEquivalents() !== null;
  const [copyAs, setCopyAs] = useState(false);
  useShortcuts({ ".": () => setCopyAs(true) });
  return (
    <div className="flex min-h-dvh flex-col">
      <a
        href="#main"
        className="fixed top-2 left-2 z-60 -translate-y-20 rounded-md bg-primary px-3 py-2 text-13 font-medium text-primary-on focus:translate-y-0"
      >
        Skip to content
      </a>
      <header className="sticky top-0 z-20 flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-warn-line bg-warn-soft px-4 py-2 sm:px-6 lg:px-8">
        <span className="flex items-center gap-2">
          <Mark className="size-5" />
          <Badge tone="warn" icon={<ShieldCheck aria-hidden />}>
            Operator: {operatorRole}
          </Badge>
        </span>
        <nav aria-label="Operator" className="order-last flex w-full gap-1 sm:order-none sm:w-auto">
          {places.map(({ to, label }) => (
            <Link
              key={to}
              to={to}
              activeOptions={{ exact: to === "/operator", includeSearch: false }}
              className="rounded-md px-2.5 py-1 text-13 font-medium text-ink-2 hover:text-ink aria-[current=page]:bg-surface aria-[current=page]:text-ink"
            >
              {label}
            </Link>
          ))}
        </nav>
        <span className="ml-auto flex items-center gap-2">
          {hasCopyAs ? (
            <IconButton label="Copy as a command" shortcut="." onClick={() => setCopyAs(true)}>
              <ClipboardCopy aria-hidden />
            </IconButton>
          ) : null}
          <span className="hidden text-12 text-ink-2 md:inline">{user?.email}</span>
          {tenants.length > 0 ? (
            <Link to="/" className={buttonClass("secondary", "sm")}>
              <ArrowLeft aria-hidden className="size-3.5" />
              Console
            </Link>
          ) : null}
        </span>
      </header>
      <main id="main" tabIndex={-1} className="min-w-0 flex-1 outline-none">
        <Framed value={true}>
          <Suspense>
            <Outlet />
          </Suspense>
        </Framed>
      </main>
      <Suspense>{copyAs ? <CopyAsDialog open onOpenChange={setCopyAs} /> : null}</Suspense>
    </div>
  );
}
