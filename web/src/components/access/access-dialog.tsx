import { useQuery } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button, IconButton } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { SkeletonRows } from "~/components/ui/skeleton";
import { type Access, roleName } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { describeError, fieldErrors, otherError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { reads } from "~/data/queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { RoleBinding } from "~/gen/corvo/cloud/v1/role_pb";
import { placeText } from "./place";

interface AccessDialogProps {
  access: Access;
  /** usr_, sa_ or grp_. */
  principalId: string;
  principal: string;
  onClose: () => void;
}

/** The roles of a member, service account or group with their places: to give, and to take away. */
export default function AccessDialog({ access, principalId, principal, onClose }: AccessDialogProps) {
  const { tenant } = access;
  const bindings = useQuery(principalReads.bindings(tenant, { principalId }));
  return (
    <Dialog
      open
      size="md"
      onOpenChange={onClose}
      title={`Access of ${principal}`}
      description="Roles and where they apply. A change reaches every service within a second."
      footer={<Button onClick={onClose}>Close</Button>}
    >
      {bindings.error ? <Banner tone="danger" title={describeError(bindings.error)} /> : null}
      {bindings.data ? (
        <Given access={access} bindings={bindings.data} />
      ) : bindings.error ? null : (
        <SkeletonRows rows={3} columns={2} label="Loading roles" />
      )}
      <GiveForm access={access} principalId={principalId} />
    </Dialog>
  );
}

function Given({ access, bindings }: { access: Access; bindings: readonly RoleBinding[] }) {
  const { tenant } = access;
  const blocked = access.blocked(Permission.ROLE_ASSIGN);
  const take = useChange(
    tenant,
    (roleBindingId: string) => principals.roles.deleteRoleBinding({ tenant, roleBindingId }),
    { done: () => "Role taken away" },
  );
  if (bindings.length === 0) return <p className="text-13 text-ink-2">No roles of its own yet.</p>;
  return (
    <ul aria-label="Roles" className="divide-y divide-line rounded-md border border-line">
      {bindings.map((binding) => (
        <li key={binding.id} className="flex items-center justify-between gap-3 px-3 py-1.5 text-13">
          <span className="min-w-0 wrap-anywhere">
            <span className="font-medium">{roleName(binding.role)}</span>{" "}
            <span className="text-ink-2">{placeText(binding.scope)}</span>{" "}
            {binding.source ? <Badge tone="info">from SSO</Badge> : null}
          </span>
          <IconButton
            size="sm"
            variant="danger-ghost"
            label={`Take away ${roleName(binding.role)} ${placeText(binding.scope)}`}
            busy={take.isPending && take.variables === binding.id}
            blockedBecause={
              blocked ??
              (binding.source
                ? "The identity provider's groups give it. Change the mapping there."
                : undefined)
            }
            onClick={() => take.mutate(binding.id)}
          >
            <Trash2 aria-hidden />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

const ALL = "";

function GiveForm({ access, principalId }: { access: Access; principalId: string }) {
  const { tenant } = access;
  const roles = useQuery(principalReads.roles(tenant));
  const namespaces = useQuery(reads.namespaces(tenant));
  const [role, setRole] = useState("viewer");
  const [namespace, setNamespace] = useState(ALL);
  const [queues, setQueues] = useState("");
  const narrow = queues.trim() ? "queue" : namespace ? "namespace" : "tenant";
  const give = useChange(
    tenant,
    () =>
      principals.roles.createRoleBinding({
        tenant,
        principalId,
        role,
        scope: { namespace, queues: queues.trim() },
      }),
    { quiet: true, done: () => "Role given" },
  );
  const wrong = fieldErrors(give.error);
  const options = (roles.data ?? []).map((entry) => ({
    value: entry.name,
    label: roleName(entry.name),
    description: entry.description,
    disabled: !fits(entry.narrowest, narrow),
  }));
  const chosen = options.find((option) => option.value === role);
  return (
    <form
      className="flex flex-col gap-3 border-t border-line pt-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (!give.isPending) give.mutate(undefined, { onSuccess: () => setQueues("") });
      }}
    >
      <h3 className="text-13 font-medium">Give a role</h3>
      {otherError(give.error) ? <Banner tone="danger" title={otherError(give.error)} /> : null}
      {give.data?.notices.map((notice) => (
        <Banner key={notice} tone="info" title={notice} />
      ))}
      <div className="grid items-start gap-3 sm:grid-cols-2">
        <Field label="Role" error={wrong.role} className="sm:col-span-2">
          <Choice options={options} value={role} onChange={setRole} />
        </Field>
        <Field label="Namespace" error={wrong["scope.namespace"] ?? wrong.scope}>
          <Choice
            options={[
              { value: ALL, label: "All namespaces" },
              ...(namespaces.data ?? []).map(({ name }) => ({ value: name, label: name })),
            ]}
            value={namespace}
            onChange={setNamespace}
          />
        </Field>
        <Field
          label="Queues"
          note="optional"
          hint="A name, or a beginning with *."
          error={wrong["scope.queues"]}
        >
          <Input mono placeholder="emails.*" value={queues} onChange={setQueues} />
        </Field>
      </div>
      <Button
        type="submit"
        className="self-start"
        busy={give.isPending}
        blockedBecause={
          access.blockedEverywhere(Permission.ROLE_ASSIGN) ??
          (chosen?.disabled ? `The role ${role} can't be given at so narrow a place.` : undefined)
        }
      >
        Give role
      </Button>
    </form>
  );
}

const order = ["tenant", "namespace", "queue"];

/** Whether a role makes sense at a place of this level. */
function fits(narrowest: string, level: string): boolean {
  return order.indexOf(level) <= order.indexOf(narrowest);
}
