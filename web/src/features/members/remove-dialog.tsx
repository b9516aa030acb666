import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import Confirm from "~/components/confirm";
import { Banner } from "~/components/ui/banner";
import { Checks } from "~/components/ui/checks";
import { admin } from "~/data/admin";
import { adminReads, useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import type { Member, MemberKey } from "~/gen/corvo/cloud/v1/member_pb";

interface RemoveDialogProps {
  tenant: string;
  member: Member;
  onClose: () => void;
}

/** Removes a member, and says what they leave behind. */
export default function RemoveDialog({ tenant, member, onClose }: RemoveDialogProps) {
  const { userId, email } = member;
  const keys = useQuery(adminReads.memberKeys(tenant, userId));
  const [revokeKeys, setRevokeKeys] = useState<string[]>([]);
  const remove = useChange(tenant, () => admin.members.removeMember({ tenant, userId, revokeKeys }), {
    quiet: true,
    done: () => "Member removed",
  });
  const own = keys.data?.filter((key) => key.ownerId === userId) ?? [];
  const others = keys.data?.filter((key) => key.ownerId !== userId) ?? [];
  return (
    <Confirm
      onClose={onClose}
      title={`Remove ${email}?`}
      confirmLabel="Remove member"
      onConfirm={() => remove.mutateAsync(undefined)}
    >
      <div className="flex flex-col gap-3">
        <p>
          This signs them out of {tenant} everywhere. They can't come back, even with single sign-on, until
          someone invites them again.
        </p>
        {keys.error ? <Banner tone="warn" title={describeError(keys.error)} /> : null}
        {own.length > 0 ? (
          <div>
            <p className="font-medium text-ink">Their personal keys are revoked:</p>
            <ul className="list-disc pl-5">
              {own.map((key) => (
                <li key={key.id} className="wrap-anywhere">
                  {key.name} <Prefix of={key} />
                </li>
              ))}
            </ul>
          </div>
        ) : null}
        {others.length > 0 ? (
          <Checks
            label="Keys of service accounts, trusts and directory tokens that they made keep working. Revoke those that they may still use:"
            options={others.map((key) => ({
              value: key.id,
              label: `Revoke ${key.name}`,
              description: `${key.prefix}… of ${key.owner}`,
            }))}
            value={revokeKeys}
            onChange={setRevokeKeys}
          />
        ) : null}
        {keys.data?.length === 0 ? (
          <p>They made no keys, trusts or directory tokens that still work.</p>
        ) : null}
      </div>
    </Confirm>
  );
}

function Prefix({ of }: { of: MemberKey }) {
  return <span className="font-mono text-12 text-ink-3">{of.prefix}…</span>;
}
