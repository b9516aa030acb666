import { useQuery } from "@tanstack/react-query";
import { useParams, useRouteContext } from "@tanstack/react-router";
import { KeyRound, LogOut, Mail, ShieldCheck, Trash2, UserCog, UserPlus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { RoleBadges } from "~/components/access/role-badges";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { actionsColumn, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { Tooltip } from "~/components/ui/tooltip";
import { type Access, roleNames } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Invitation, Member } from "~/gen/corvo/cloud/v1/member_pb";
import { membersEquivalents } from "~/lib/access-equivalents";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const InviteDialog = lazy(() => import("~/features/members/invite-dialog"));
const AccessDialog = lazy(() => import("~/components/access/access-dialog"));
const RemoveDialog = lazy(() => import("~/features/members/remove-dialog"));
const RolesDialog = lazy(() => import("~/features/members/roles-dialog"));

export function MembersPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access, identity } = useRouteContext({ from: "/$tenant" });
  const members = useQuery(adminReads.members(tenant));
  useCopyAs(membersEquivalents(tenant));
  const [inviting, setInviting] = useState(false);
  const blocked = access.blocked(Permission.MEMBER_INVITE);

  return (
    <Page
      description={`People with access to ${tenant}, and the roles that they have in all of it.`}
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
      {members.error && !members.data ? (
        <Problem error={members.error} onRetry={() => void members.refetch()} />
      ) : (
        <Card flush>
          <MemberTable tenant={tenant} access={access} self={identity.user?.id} rows={members.data} />
        </Card>
      )}
      <Invitations tenant={tenant} access={access} />
      <Suspense>
        {inviting ? <InviteDialog access={access} onClose={() => setInviting(false)} /> : null}
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
  const [changing, setChanging] = useState<Member>();
  const [showing, setShowing] = useState<Member>();
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
                {member.external ? (
                  <Tooltip content="Signs in through your identity provider with an address outside your verified domains.">
                    <span>
                      <Badge tone="warn">external</Badge>
                    </span>
                  </Tooltip>
                ) : null}
                {member.name ? (
                  <span className="block w-full text-12 wrap-anywhere text-ink-3">{member.email}</span>
                ) : null}
              </span>
            ),
          },
          {
            id: "role",
            header: "Roles",
            width: "w-56",
            sort: (member) => roleNames(member.roles),
            cell: (member) => <RoleBadges roles={member.roles} />,
          },
          {
            id: "seen",
            header: "Last seen",
            width: "w-36",
            sort: (member) => dateOf(member.lastSeenAt)?.getTime() ?? 0,
            cell: (member) => <Time at={dateOf(member.lastSeenAt)} none="never" className="text-ink-2" />,
          },
          actionsColumn(
            { width: "w-28", phone: "corner", blockedBecause: access.blocked(Permission.MEMBER_REMOVE) },
            (member: Member) => [
              {
                label: `Change roles of ${member.email}`,
                icon: <UserCog aria-hidden />,
                blockedBecause: access.blocked(Permission.MEMBER_UPDATE) ?? fromProvider(member),
                onClick: () => setChanging(member),
              },
              {
                label: `Access of ${member.email}`,
                icon: <KeyRound aria-hidden />,
                blockedBecause: access.blocked(Permission.ROLE_READ),
                onClick: () => setShowing(member),
              },
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
          <RemoveDialog tenant={tenant} member={removing} onClose={() => setRemoving(undefined)} />
        ) : null}
        {showing ? (
          <AccessDialog
            access={access}
            principalId={showing.userId}
            principal={showing.email}
            onClose={() => setShowing(undefined)}
          />
        ) : null}
        {changing ? (
          <RolesDialog access={access} member={changing} onClose={() => setChanging(undefined)} />
        ) : null}
      </Suspense>
    </>
  );
}

/** Roles that come from the provider's groups would come again with the next sign-in. */
function fromProvider({ ssoConnectionId }: Member): string | undefined {
  return ssoConnectionId
    ? "Groups of your identity provider give these roles. Change the mapping of groups in Single sign-on."
    : undefined;
}

function Invitations({ tenant, access }: { tenant: string; access: Access }) {
  const invitations = useQuery(adminReads.invitations(tenant));
  const revoke = useChange(
    tenant,
    (invitationId: string) => admin.members.revokeInvitation({ tenant, invitationId }),
    { done: () => "Invitation withdrawn" },
  );
  const blocked = access.blocked(Permission.MEMBER_INVITE);
  return (
    <Card flush title="Invitations" description="Sent but not accepted yet.">
      {invitations.error && !invitations.data ? (
        <Problem error={invitations.error} onRetry={() => void invitations.refetch()} />
      ) : (
        <Table
          label="invitations"
          rows={invitations.data}
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
            { id: "role", header: "Roles", cell: (invitation) => <RoleBadges roles={invitation.roles} /> },
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
      )}
    </Card>
  );
}
