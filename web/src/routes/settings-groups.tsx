import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import { Pencil, Plus, ShieldCheck, Trash2, UserPlus, UsersRound } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Group } from "~/gen/corvo/cloud/v1/principal_pb";
import { firstGroup, groupsEquivalents } from "~/lib/access-equivalents";
import { plural } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const AccessDialog = lazy(() => import("~/components/access/access-dialog"));
const GroupDialog = lazy(() => import("~/features/groups/group-dialog"));
const PeopleDialog = lazy(() => import("~/features/groups/people-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

type Open = { what: "create" } | { what: "people" | "access" | "edit" | "delete"; group: Group };

/** Members who have roles in common. */
export function GroupsPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.GROUP_READ);
  const groups = useQuery({ ...principalReads.groups(tenant), enabled: !unreadable });
  const [open, setOpen] = useState<Open>();
  useCopyAs(groupsEquivalents(tenant));
  const create = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={access.blocked(Permission.GROUP_UPDATE)}
      onClick={() => setOpen({ what: "create" })}
    >
      New group
    </Button>
  );
  return (
    <Page
      description="Give a role to a group, and everybody in it has the role. Directory sync fills groups for you."
      actions={create}
    >
      {unreadable ? (
        <EmptyState icon={<UsersRound aria-hidden />} title="You can't view groups">
          {unreadable}
        </EmptyState>
      ) : groups.error && !groups.data ? (
        <Problem error={groups.error} onRetry={() => void groups.refetch()} />
      ) : (
        <Card flush>
          <Table
            label="Groups"
            rows={groups.data}
            rowKey={(group) => group.id}
            initialSort={{ column: "name", descending: false }}
            columns={columns(access, setOpen)}
            empty={
              <EmptyState
                icon={<UsersRound aria-hidden />}
                title="No groups yet"
                action={create}
                snippet={<CodeBlock language="shell" label="Create one" code={firstGroup(tenant)} />}
              >
                Groups appear here when you create them or when your directory sends them.
              </EmptyState>
            }
          />
        </Card>
      )}
      <Suspense>
        <Opened access={access} open={open} onClose={() => setOpen(undefined)} />
      </Suspense>
    </Page>
  );
}

function columns(access: Access, setOpen: (open: Open) => void): Column<Group>[] {
  return [
    {
      id: "name",
      header: "Group",
      phone: "title",
      sort: (group) => group.name,
      cell: (group) => (
        <span className="flex flex-wrap items-center gap-x-2">
          <span className="font-medium wrap-anywhere">{group.name}</span>
          {group.connectionId ? <Badge tone="info">directory</Badge> : null}
          {group.description ? (
            <span className="block w-full text-12 wrap-anywhere text-ink-3">{group.description}</span>
          ) : null}
        </span>
      ),
    },
    {
      id: "members",
      header: "Members",
      align: "right",
      width: "w-28",
      sort: (group) => group.members,
      cell: (group) => <span className="nums">{group.members}</span>,
    },
    {
      id: "created",
      header: "Created",
      width: "w-32",
      sort: (group) => dateOf(group.createdAt)?.getTime() ?? 0,
      cell: (group) => <Time at={dateOf(group.createdAt)} className="text-ink-2" />,
    },
    actionsColumn({ width: "w-36", phone: "block" }, (group) => {
      const blocked =
        access.blocked(Permission.GROUP_UPDATE) ??
        (group.connectionId ? "Your directory keeps this group. Change it there." : undefined);
      return [
        {
          label: `Members of ${group.name}`,
          icon: <UserPlus aria-hidden />,
          onClick: () => setOpen({ what: "people", group }),
        },
        {
          label: `Access of ${group.name}`,
          icon: <ShieldCheck aria-hidden />,
          blockedBecause: access.blocked(Permission.ROLE_READ),
          onClick: () => setOpen({ what: "access", group }),
        },
        {
          label: `Edit ${group.name}`,
          icon: <Pencil aria-hidden />,
          blockedBecause: blocked,
          onClick: () => setOpen({ what: "edit", group }),
        },
        {
          label: `Delete ${group.name}`,
          icon: <Trash2 aria-hidden />,
          danger: true,
          blockedBecause: blocked,
          onClick: () => setOpen({ what: "delete", group }),
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
  const remove = useChange(tenant, (groupId: string) => principals.groups.deleteGroup({ tenant, groupId }), {
    quiet: true,
    done: () => "Group deleted",
  });
  switch (open?.what) {
    case "create":
      return <GroupDialog tenant={tenant} onClose={onClose} />;
    case "edit":
      return <GroupDialog tenant={tenant} group={open.group} onClose={onClose} />;
    case "people":
      return <PeopleDialog access={access} group={open.group} onClose={onClose} />;
    case "access":
      return (
        <AccessDialog
          access={access}
          principalId={open.group.id}
          principal={open.group.name}
          onClose={onClose}
        />
      );
    case "delete":
      return (
        <Confirm
          onClose={onClose}
          title={`Delete ${open.group.name}?`}
          confirmLabel="Delete group"
          onConfirm={() => remove.mutateAsync(open.group.id)}
        >
          {open.group.members > 0
            ? `${plural(open.group.members, "member")} lose the roles of this group within a second. `
            : ""}
          This can't be undone.
        </Confirm>
      );
    default:
      return null;
  }
}
