import { Boxes, ChevronsUpDown } from "lucide-react";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";
import { LazyMenu } from "./lazy-menu";
import { Monogram } from "./monogram";

const triggerClass =
  "flex h-9 w-full min-w-0 items-center gap-2 rounded-md px-2 text-13 font-medium hover:bg-hover data-popup-open:bg-hover";

export function TenantSwitcher({ tenant, tenants }: { tenant: string; tenants: readonly TenantAccess[] }) {
  return (
    <LazyMenu
      load={async () => (await import("./menus")).TenantMenu}
      props={{ tenant, tenants }}
      button={{
        className: triggerClass,
        children: (
          <>
            <Monogram name={tenant} />
            <span className="min-w-0 flex-1 truncate text-left">
              <span className="sr-only">Tenant </span>
              {tenant}
            </span>
            <ChevronsUpDown aria-hidden className="size-3.5 shrink-0 text-ink-3" />
          </>
        ),
      }}
    />
  );
}

export function NamespaceSwitcher({ tenant, namespace }: { tenant: string; namespace: string }) {
  return (
    <LazyMenu
      load={async () => (await import("./menus")).NamespaceMenu}
      props={{ tenant, namespace }}
      button={{
        className: `${triggerClass} text-ink-2`,
        children: (
          <>
            <span className="grid size-6 shrink-0 place-items-center rounded-md border border-line bg-surface text-ink-3">
              <Boxes aria-hidden className="size-3.5" />
            </span>
            <span className="min-w-0 flex-1 truncate text-left">
              <span className="sr-only">Namespace </span>
              {namespace}
            </span>
            <ChevronsUpDown aria-hidden className="size-3.5 shrink-0 text-ink-3" />
          </>
        ),
      }}
    />
  );
}
