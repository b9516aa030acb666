import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import Confirm from "~/components/confirm";
import { Banner } from "~/components/ui/banner";
import { roleNames } from "~/data/access";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import { TenantRole } from "~/gen/corvo/cloud/v1/access_pb";
import type { Member } from "~/gen/corvo/cloud/v1/member_pb";

interface ChangeDialogProps {
  tenant: string;
  member: Member;
  /** The new role; unspecified removes the member. */
  role: TenantRole;
  onClose: () => void;
}

/** Removes a member or changes a role, and says which of their keys end with it. */
export default function ChangeDialog({ tenant, member, role, onClose }: ChangeDialogProps) {
  const removal = role === TenantRole.UNSPECIFIED;
  const keys = useQuery(adminReads.memberKeys(tenant, member.userId, role));
  const [kept, setKept] = useState<ReadonlySet<string>>(new Set());
  const change = useChange(
    tenant,
    async () => {
      const keepKeys = [...kept];
      const { userId, etag } = member;
      if (removal) await admin.members.removeMember({ tenant, userId, keepKeys });
      else await admin.members.updateMember({ tenant, userId, role, etag, keepKeys });
    },
    { quiet: true, done: () => (removal ? "Member removed" : `Changed the role of ${member.email}`) },
  );
  const list = keys.data ?? [];
  return (
    <Confirm
      onClose={onClose}
      title={
        removal
          ? `Remove ${member.email}?`
          : `Change the role of ${member.email} to ${roleNames[role].toLowerCase()}?`
      }
      variant={removal || list.length > 0 ? "danger" : "primary"}
      confirmLabel={removal ? "Remove member" : "Change role"}
      onConfirm={() => change.mutateAsync(undefined)}
    >
      <div className="flex flex-col gap-3">
        {removal ? (
          <p>
            This signs them out of {tenant} everywhere. They can't come back, even with single sign-on, until
            someone invites them again.
          </p>
        ) : null}
        {keys.error ? <Banner tone="warn" title={describeError(keys.error)} /> : null}
        {list.length > 0 ? (
          <fieldset className="flex flex-col gap-2">
            <legend className="mb-1 font-medium text-ink">
              This revokes the API keys they created, except those you keep:
            </legend>
            {list.map((key) => (
              <label key={key.id} className="flex items-start gap-2.5 text-13">
                <input
                  type="checkbox"
                  checked={kept.has(key.id)}
                  onChange={(event) => {
                    const next = new Set(kept);
                    if (event.target.checked) next.add(key.id);
                    else next.delete(key.id);
                    setKept(next);
                  }}
                  className="mt-0.5 size-4.5 accent-accent"
                />
                <span className="min-w-0 wrap-anywhere">
                  Keep {key.name} <span className="font-mono text-12 text-ink-3">{key.prefix}…</span>
                </span>
              </label>
            ))}
          </fieldset>
        ) : keys.data ? (
          <p>No API keys are revoked.</p>
        ) : null}
      </div>
    </Confirm>
  );
}
