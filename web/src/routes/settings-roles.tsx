import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import { Copy, Eye, Pencil, Plus, Tags, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { type Access, roleName } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Role } from "~/gen/corvo/cloud/v1/role_pb";
import { rolesEquivalents } from "~/lib/access-equivalents";

// Opened on demand, loaded on demand.
const RoleDialog = lazy(() => import("~/features/roles/role-dialog"));
const ViewDialog = lazy(() => import("~/features/roles/view-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

type Open = { what: "create" } | { what: "copy" | "edit" | "view" | "delete"; role: Role };

/** The roles that every tenant has, and the tenant's own. */
export function RolesPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.ROLE_READ);
  const roles = useQuery({ ...principalReads.roles(tenant), enabled: !unreadable });
  const [open, setOpen] = useState<Open>();
  useCopyAs(rolesEquivalents(tenant));
  return (
    <Page
      description="A role is a set of permissions. Give it to members, service accounts and groups, in the tenant, a namespace or single queues."
      actions={
        <Button
          variant="primary"
          icon={<Plus aria-hidden />}
          blockedBecause={access.blocked(Permission.ROLE_UPDATE)}
          onClick={() => setOpen({ what: "create" })}
        >
          New role
        </Button>
      }
    >
      {unreadable ? (
        <EmptyState icon={<Tags aria-hidden />} title="You can't view roles">
          {unreadable}
        </EmptyState>
      ) : roles.error && !roles.data ? (
        <Problem error={roles.error} onRetry={() => void roles.refetch()} />
      ) : (
        <Card flush>
          <Table
            label="Roles"
            rows={roles.data}
            rowKey={(role) => role.id}
            columns={columns(access, setOpen)}
          />
        </Card>
      )}
      <Suspense>
        <Opened access={access} open={open} onClose={() => setOpen(undefined)} />
      </Suspense>
    </Page>
  );
}

const narrowest: Record<string, string> = {
  tenant: "tenant",
  namespace: "tenant, namespace",
  queue: "tenant, namespace, queue",
};

function columns(access: Access, setOpen: (open: Open) => void): Column<Role>[] {
  return [
    {
      id: "name",
      header: "Role",
      phone: "title",
      cell: (role) => (
        <span className="flex flex-wrap items-center gap-x-2">
          <span className="font-medium wrap-anywhere">{roleName(role.name)}</span>
          {role.fixed ? <Badge>built in</Badge> : null}
          <span className="block w-full text-12 wrap-anywhere text-ink-3">{role.description}</span>
        </span>
      ),
    },
    {
      id: "permissions",
      header: "Permissions",
      align: "right",
      width: "w-28",
      cell: (role) => <span className="nums">{role.permissions.length}</span>,
    },
    { id: "where", header: "Given in", width: "w-52", cell: (role) => narrowest[role.narrowest] },
    {
      id: "bindings",
      header: "Times given",
      align: "right",
      width: "w-28",
      cell: (role) => <span className="nums">{role.bindings}</span>,
    },
    actionsColumn({ width: "w-36", phone: "block" }, (role) => {
      const blocked =
        access.blocked(Permission.ROLE_UPDATE) ??
        (role.fixed ? "Every tenant has this role, and nobody can change it. Copy it instead." : undefined);
      return [
        {
          label: `What ${roleName(role.name)} allows`,
          icon: <Eye aria-hidden />,
          onClick: () => setOpen({ what: "view", role }),
        },
        {
          label: `Copy ${roleName(role.name)}`,
          icon: <Copy aria-hidden />,
          blockedBecause: access.blocked(Permission.ROLE_UPDATE),
          onClick: () => setOpen({ what: "copy", role }),
        },
        {
          label: `Edit ${roleName(role.name)}`,
          icon: <Pencil aria-hidden />,
          blockedBecause: blocked,
          onClick: () => setOpen({ what: "edit", role }),
        },
        {
          label: `Delete ${roleName(role.name)}`,
          icon: <Trash2 aria-hidden />,
          danger: true,
          blockedBecause:
            blocked ?? (role.bindings > 0 ? "Take it away from everybody who has it first." : undefined),
          onClick: () => setOpen({ what: "delete", role }),
        },
      ];
    }),
  ];
}

interface OpenedProps {
  access: Access;
  open: Open | undefined;
  onClose: () => void;
}

function Opened({ access, open, onClose }: OpenedProps) {
  const { tenant } = access;
  const remove = useChange(tenant, (roleId: string) => principals.roles.deleteRole({ tenant, roleId }), {
    quiet: true,
    done: () => "Role deleted",
  });
  switch (open?.what) {
    case "create":
      return <RoleDialog access={access} onClose={onClose} />;
    case "copy": {
      const { name, description, permissions } = open.role;
      // Only what the user has can be in a role of theirs.
      const mine = permissions.filter((permission) => access.holds([permission]));
      return (
        <RoleDialog
          access={access}
          role={{ name: `${name} copy`, description, permissions: mine }}
          onClose={onClose}
        />
      );
    }
    case "edit":
      return <RoleDialog access={access} role={open.role} onClose={onClose} />;
    case "view":
      return <ViewDialog tenant={tenant} role={open.role} onClose={onClose} />;
    case "delete":
      return (
        <Confirm
          onClose={onClose}
          title={`Delete the role ${open.role.name}?`}
          confirmLabel="Delete role"
          onConfirm={() => remove.mutateAsync(open.role.id)}
        >
          Nobody has it. This can't be undone.
        </Confirm>
      );
    default:
      return null;
  }
}
