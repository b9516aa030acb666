import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import { LogOut, Mail, ShieldCheck, Trash2, UserPlus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { Page } from "~/components/ui/page";
import { actionsColumn, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { type Access, roleNames } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { roleOptions } from "~/features/members/roles";
import { Permission, TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import type { Invitation, Member } from "~/gen/corvo/cloud/v1/member_pb";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const InviteDialog = lazy(() => import("~/features/members/invite-dialog"));
const ChangeDialog = lazy(() => import("~/features/members/change-dialog"));

export function MembersPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access, identity } = useRouteContext({ from: "/$tenant" });
  const members = useQuery(adminReads.members(tenant));
  const [inviting, setInviting] = useState(false);
  const blocked = access.blocked(Permission.MEMBER_WRITE);

  return (
    <Page
      description={`People with access to ${tenant}. Roles apply to all namespaces.`}
      actions={
        <Button
          variant="primary"
          icon={<UserPlus aria-hidden />}
          blockedBecause={blocked}
          onClick={() => setInviting(true)}
        >
          Invite
        </Button>
      }
    >
      {members.error ? (
        <Problem error={members.error} onRetry={() => void members.refetch()} />
      ) : (
        <Card flush>
          <MemberTable tenant={tenant} access={access} self={identity.user?.id} rows={members.data} />
        </Card>
      )}
      <Invitations tenant={tenant} access={access} />
      <Suspense>
        {inviting ? (
          <InviteDialog tenant={tenant} holder={access.role} onClose={() => setInviting(false)} />
        ) : null}
      </Suspense>
    </Page>
  );
}

interface MemberTableProps {
  tenant: string;
  access: Access;
  self: string | undefined;
  rows: Member[] | undefined;
}

function MemberTable({ tenant, access, self, rows }: MemberTableProps) {
  const [removing, setRemoving] = useState<Member>();
  return (
    <>
      <Table
        label="members"
        rows={rows}
        rowKey={(member) => member.userId}
        initialSort={{ column: "email", descending: false }}
        columns={[
          {
            id: "email",
            header: "Member",
            phone: "title",
            sort: (member) => member.email,
            cell: (member) => (
              <span className="flex min-w-0 flex-wrap items-center gap-x-2">
                <span className="min-w-0 font-medium wrap-anywhere">{member.name || member.email}</span>
                {member.userId === self ? <Badge tone="accent">you</Badge> : null}
                {member.ssoConnectionId ? (
                  <Badge tone="info" icon={<ShieldCheck aria-hidden />}>
                    SSO
                  </Badge>
                ) : null}
                {member.name ? (
                  <span className="block w-full text-12 wrap-anywhere text-ink-3">{member.email}</span>
                ) : null}
              </span>
            ),
          },
          {
            id: "role",
            header: "Role",
            width: "w-48",
            sort: (member) => member.role,
            cell: (member) => <RoleCell tenant={tenant} access={access} member={member} />,
          },
          {
            id: "seen",
            header: "Last seen",
            width: "w-36",
            sort: (member) => dateOf(member.lastSeenAt)?.getTime() ?? 0,
            cell: (member) => <Time at={dateOf(member.lastSeenAt)} none="never" className="text-ink-2" />,
          },
          actionsColumn(
            { width: "w-14", phone: "corner", blockedBecause: access.blocked(Permission.MEMBER_WRITE) },
            (member: Member) => [
              {
                label: member.userId === self ? `Leave ${tenant}` : `Remove ${member.email}`,
                icon: member.userId === self ? <LogOut aria-hidden /> : <Trash2 aria-hidden />,
                danger: true,
                onClick: () => setRemoving(member),
              },
            ],
          ),
        ]}
      />
      <Suspense>
        {removing ? (
          <ChangeDialog
            tenant={tenant}
            member={removing}
            role={TenantRole.UNSPECIFIED}
            onClose={() => setRemoving(undefined)}
          />
        ) : null}
      </Suspense>
    </>
  );
}

function RoleCell({ tenant, access, member }: { tenant: string; access: Access; member: Member }) {
  const [changing, setChanging] = useState<TenantRole>();
  if (member.ssoConnectionId || access.blocked(Permission.MEMBER_WRITE))
    return <span>{roleNames[member.role]}</span>;
  return (
    <>
      <Choice
        label={`Role of ${member.email}`}
        className="max-w-40"
        options={roleOptions(access.role)}
        value={String(changing ?? member.role)}
        disabled={member.role === TenantRole.OWNER && access.role !== TenantRole.OWNER}
        onChange={(value) => setChanging(Number(value) as TenantRole)}
      />
      <Suspense>
        {changing !== undefined && changing !== member.role ? (
          <ChangeDialog
            tenant={tenant}
            member={member}
            role={changing}
            onClose={() => setChanging(undefined)}
          />
        ) : null}
      </Suspense>
    </>
  );
}

function Invitations({ tenant, access }: { tenant: string; access: Access }) {
  const invitations = useQuery(adminReads.invitations(tenant));
  const revoke = useChange(
    tenant,
    (invitationId: string) => admin.members.revokeInvitation({ tenant, invitationId }),
    { done: () => "Invitation withdrawn" },
  );
  const blocked = access.blocked(Permission.MEMBER_WRITE);
  return (
    <Card flush title="Invitations" description="Sent but not accepted yet.">
      <Table
        label="invitations"
        rows={invitations.error ? [] : invitations.data}
        rowKey={(invitation) => invitation.id}
        skeletonRows={2}
        empty={
          <p className="px-4 py-4 text-13 text-ink-3">
            No pending invitations. People you invite appear here until they accept.
          </p>
        }
        columns={[
          {
            id: "email",
            header: "Invited",
            phone: "title",
            cell: (invitation: Invitation) => (
              <span className="flex min-w-0 items-center gap-2 font-medium">
                <Mail aria-hidden className="size-4 shrink-0 text-ink-3" />
                <span className="min-w-0 wrap-anywhere">{invitation.email}</span>
              </span>
            ),
          },
          { id: "role", header: "Role", cell: (invitation) => roleNames[invitation.role] },
          { id: "by", header: "Invited by", cell: (invitation) => invitation.invitedBy },
          {
            id: "expires",
            header: "Expires",
            cell: (invitation) => <Time at={dateOf(invitation.expiresAt)} />,
          },
          {
            id: "actions",
            header: "Actions",
            hideHeader: true,
            align: "right",
            phone: "corner",
            cell: (invitation) => (
              <Button
                size="sm"
                variant="danger-ghost"
                blockedBecause={blocked}
                onClick={() => revoke.mutate(invitation.id)}
              >
                Withdraw
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}
