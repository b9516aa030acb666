import { useQuery } from "@tanstack/react-query";
import { UserMinus } from "lucide-react";
import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button, IconButton } from "~/components/ui/button";
import { Combobox } from "~/components/ui/combobox";
import { Dialog } from "~/components/ui/dialog";
import { Field } from "~/components/ui/field";
import { SkeletonRows } from "~/components/ui/skeleton";
import type { Access } from "~/data/access";
import { adminReads, useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Group } from "~/gen/corvo/cloud/v1/principal_pb";

interface PeopleDialogProps {
  access: Access;
  group: Group;
  onClose: () => void;
}

/** Who is in a group: to add, and to take out. */
export default function PeopleDialog({ access, group, onClose }: PeopleDialogProps) {
  const { tenant } = access;
  const groupId = group.id;
  const people = useQuery(principalReads.groupMembers(tenant, groupId));
  const members = useQuery(adminReads.members(tenant));
  const [chosen, setChosen] = useState<string | null>(null);
  const blocked = access.blocked(Permission.GROUP_UPDATE) ?? kept(group);
  const add = useChange(
    tenant,
    (userId: string) => principals.groups.addGroupMembers({ tenant, groupId, userIds: [userId] }),
    { quiet: true, done: () => `Added to ${group.name}` },
  );
  const remove = useChange(
    tenant,
    (userId: string) => principals.groups.removeGroupMembers({ tenant, groupId, userIds: [userId] }),
    { done: () => `Removed from ${group.name}` },
  );
  const inside = new Set(people.data?.map(({ userId }) => userId));
  return (
    <Dialog
      open
      size="md"
      onOpenChange={onClose}
      title={`Members of ${group.name}`}
      description={kept(group)}
      footer={<Button onClick={onClose}>Close</Button>}
    >
      {people.error ? <Banner tone="danger" title={describeError(people.error)} /> : null}
      {add.data?.notices.map((notice) => (
        <Banner key={notice} tone="info" title={notice} />
      ))}
      {people.data ? (
        people.data.length === 0 ? (
          <p className="text-13 text-ink-2">Nobody is in this group yet.</p>
        ) : (
          <ul aria-label="Members" className="divide-y divide-line rounded-md border border-line">
            {people.data.map(({ userId, email, name }) => (
              <li key={userId} className="flex items-center justify-between gap-3 px-3 py-1.5 text-13">
                <span className="min-w-0 wrap-anywhere">
                  {name ? <span className="font-medium">{name} </span> : null}
                  <span className={name ? "text-ink-3" : "font-medium"}>{email}</span>
                </span>
                <IconButton
                  size="sm"
                  variant="danger-ghost"
                  label={`Remove ${email} from ${group.name}`}
                  busy={remove.isPending && remove.variables === userId}
                  blockedBecause={blocked}
                  onClick={() => remove.mutate(userId)}
                >
                  <UserMinus aria-hidden />
                </IconButton>
              </li>
            ))}
          </ul>
        )
      ) : people.error ? null : (
        <SkeletonRows rows={3} columns={1} label="Loading members" />
      )}
      <form
        className="flex items-end gap-2 border-t border-line pt-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (chosen && !blocked) add.mutate(chosen, { onSuccess: () => setChosen(null) });
        }}
      >
        <Field
          label="Add a member"
          className="flex-1"
          error={add.error ? describeError(add.error) : undefined}
        >
          <Combobox
            options={(members.data ?? [])
              .filter(({ userId }) => !inside.has(userId))
              .map(({ userId, email, name }) => ({
                value: userId,
                label: email,
                ...(name ? { description: name } : {}),
              }))}
            value={chosen}
            onChange={setChosen}
            placeholder="name@company.com"
            empty="No other members."
          />
        </Field>
        <Button
          type="submit"
          busy={add.isPending}
          blockedBecause={blocked ?? (chosen ? undefined : "Choose a member.")}
        >
          Add
        </Button>
      </form>
    </Dialog>
  );
}

/** A directory keeps its own groups. */
function kept(group: Group): string | undefined {
  return group.connectionId ? "Your directory keeps this group. Change who is in it there." : undefined;
}
