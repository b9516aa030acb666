import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { PermissionPicker } from "~/components/access/permission-picker";
import { changeOf, holdersOf } from "~/components/access/place";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { newRequestId, useChange } from "~/data/admin-queries";
import { describeError, fieldErrors, otherError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import type { Role } from "~/gen/corvo/cloud/v1/role_pb";
import { plural } from "~/lib/numbers";

interface RoleDialogProps {
  access: Access;
  /** What the new role begins with, or the role to change. */
  role?: Pick<Role, "name" | "description" | "permissions"> & Partial<Role>;
  onClose: () => void;
}

/** Makes a role of the tenant's own, or changes one, and says first whom that concerns. */
export default function RoleDialog({ access, role, onClose }: RoleDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState(role?.name ?? "");
  const [description, setDescription] = useState(role?.description ?? "");
  const [permissions, setPermissions] = useState<string[]>(role?.permissions ?? []);
  const roleId = role?.id;
  const save = useChange(
    tenant,
    async () => {
      if (!roleId) await principals.roles.createRole({ tenant, requestId, name, description, permissions });
      else
        await principals.roles.updateRole({
          tenant,
          roleId,
          etag: role.etag ?? "",
          name,
          description,
          permissions,
          updateMask: { paths: ["name", "description", "permissions"] },
        });
    },
    { quiet: true, done: () => `${roleId ? "Saved" : "Created"} the role ${name}` },
  );
  const wrong = fieldErrors(save.error);
  const wrongPermissions = Object.entries(wrong).find(([path]) => path.startsWith("permissions"))?.[1];
  return (
    <FormDialog
      size="lg"
      onClose={onClose}
      title={roleId ? `Edit ${role.name}` : "New role"}
      submit={roleId ? "Save role" : "Create role"}
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      blockedBecause={
        name.trim() === ""
          ? "Enter a name."
          : permissions.length === 0
            ? "Choose at least one permission."
            : undefined
      }
      failure={otherError(save.error)}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <Field label="Name" error={wrong.name}>
          <Input autoFocus placeholder="on call" value={name} onChange={setName} />
        </Field>
        <Field label="Description" note="optional" error={wrong.description}>
          <Input placeholder="Retries and pauses at night" value={description} onChange={setDescription} />
        </Field>
      </div>
      <PermissionPicker
        value={permissions}
        onChange={setPermissions}
        error={wrongPermissions}
        blocked={(permission) => (access.holds([permission]) ? undefined : "You don't have it yourself.")}
      />
      {roleId ? (
        <Effect tenant={tenant} roleId={roleId} before={role.permissions} after={permissions} />
      ) : null}
    </FormDialog>
  );
}

interface EffectProps {
  tenant: string;
  roleId: string;
  before: readonly string[];
  after: readonly string[];
}

// Names of so many holders are enough to see whom it concerns.
const SHOWN = 5;

/** Who gains and loses what, before it is saved. */
function Effect({ tenant, roleId, before, after }: EffectProps) {
  const bindings = useQuery(principalReads.bindings(tenant, { roleId }));
  const { gained, lost } = changeOf(before, after);
  if (gained.length + lost.length === 0) return null;
  if (bindings.error) return <Banner tone="warn" title={describeError(bindings.error)} />;
  if (!bindings.data) return null;
  const holders = holdersOf(bindings.data);
  return (
    <Banner
      tone={lost.length > 0 ? "warn" : "info"}
      title={
        holders.length === 0
          ? "Nobody has this role, so nobody gains or loses anything."
          : `Saving changes what ${plural(holders.length, "holder")} of this role can do`
      }
    >
      {holders.length === 0 ? null : (
        <div className="flex flex-col gap-1.5">
          <Names word="Gained" tone="ok" names={gained} />
          <Names word="Lost" tone="danger" names={lost} />
          <ul>
            {holders.slice(0, SHOWN).map(({ principal, places }) => (
              <li key={principal} className="wrap-anywhere">
                <span className="font-medium text-ink">{principal}</span> {places.join(", ")}
              </li>
            ))}
            {holders.length > SHOWN ? <li>and {holders.length - SHOWN} more</li> : null}
          </ul>
        </div>
      )}
    </Banner>
  );
}

function Names({ word, tone, names }: { word: string; tone: "ok" | "danger"; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <p className="flex flex-wrap items-center gap-1">
      {word}:
      {names.map((name) => (
        <Badge key={name} tone={tone} className="font-mono">
          {name}
        </Badge>
      ))}
    </p>
  );
}
