import { useQuery } from "@tanstack/react-query";
import { ShieldCheck } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { type Column, Table } from "~/components/ui/table";
import type { Access } from "~/data/access";
import { principalReads } from "~/data/principal-queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Group } from "~/gen/corvo/cloud/v1/principal_pb";

const AccessDialog = lazy(() => import("~/components/access/access-dialog"));

interface GroupsCardProps {
  access: Access;
  connectionId: string;
}

/** The groups that a directory has sent, to give them roles. */
export function GroupsCard({ access, connectionId }: GroupsCardProps) {
  const unreadable = access.blocked(Permission.GROUP_READ);
  const all = useQuery({ ...principalReads.groups(access.tenant), enabled: !unreadable });
  const [showing, setShowing] = useState<Group>();
  const groups = all.data?.filter((group) => group.connectionId === connectionId);
  return (
    <Card
      flush
      title="Groups of your directory"
      description="Who is in them is changed there. What they can do is given here."
    >
      {unreadable ? (
        <p className="p-4 text-13 text-ink-2">{unreadable}</p>
      ) : all.error && !all.data ? (
        <Problem error={all.error} onRetry={() => void all.refetch()} />
      ) : (
        <Table
          label="Groups of your directory"
          rows={groups}
          rowKey={(group) => group.id}
          columns={columns(access.blocked(Permission.ROLE_READ), setShowing)}
          empty={
            <p className="p-4 text-13 text-ink-2">
              No groups yet. Assign groups to the application at your directory, and have it push them.
            </p>
          }
        />
      )}
      <Suspense>
        {showing ? (
          <AccessDialog
            access={access}
            principalId={showing.id}
            principal={showing.name}
            onClose={() => setShowing(undefined)}
          />
        ) : null}
      </Suspense>
    </Card>
  );
}

function columns(blocked: string | undefined, onShow: (group: Group) => void): Column<Group>[] {
  return [
    {
      id: "name",
      header: "Group",
      phone: "title",
      sort: (group) => group.name,
      cell: (group) => <span className="font-medium wrap-anywhere">{group.name}</span>,
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
      id: "actions",
      header: "Actions",
      hideHeader: true,
      align: "right",
      width: "w-36",
      phone: "corner",
      cell: (group) => (
        <Button
          size="sm"
          icon={<ShieldCheck aria-hidden />}
          aria-label={`Access of ${group.name}`}
          blockedBecause={blocked}
          onClick={() => onShow(group)}
        >
          Access
        </Button>
      ),
    },
  ];
}
