import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldsOf, missingOf, unlimited } from "~/components/access/limits";
import { LimitsFields } from "~/components/access/limits-fields";
import { RolePicker } from "~/components/access/role-picker";
import { Checks } from "~/components/ui/checks";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { newRequestId, useChange } from "~/data/admin-queries";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import { principalReads } from "~/data/principal-queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { KeyKind } from "~/gen/corvo/cloud/v1/apikey_pb";
import { inDays } from "~/lib/proto-time";

interface CreateDialogProps {
  access: Access;
  namespaces: readonly string[];
  /** The namespace that was open; undefined: every one. */
  namespace?: string | undefined;
  /** The service account that the key is for; undefined: to be chosen. */
  owner?: string | undefined;
  onClose: () => void;
  onCreated: (name: string, secret: string) => void;
}

const lives = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "One year" },
  { value: "0", label: "Never" },
];

const kinds = [
  { value: "jobs", label: "Jobs", description: "For programs that enqueue and run jobs." },
  {
    value: "management",
    label: "Management",
    description: "For Terraform and the control API. It works for jobs too.",
  },
  {
    value: "personal",
    label: "Personal",
    description: "Yours. It can do what you can, and ends when you leave.",
  },
] as const;

const kindOf = {
  jobs: KeyKind.JOBS,
  management: KeyKind.MANAGEMENT,
  personal: KeyKind.PERSONAL,
} as const;

const NEW = "new";

export default function CreateDialog({
  access,
  namespaces,
  onClose,
  onCreated,
  ...given
}: CreateDialogProps) {
  const { tenant } = access;
  const [requestId] = useState(newRequestId);
  const [name, setName] = useState("");
  const [kind, setKind] = useState<keyof typeof kindOf>("jobs");
  const [owner, setOwner] = useState(given.owner ?? NEW);
  const [roles, setRoles] = useState<string[]>(["producer", "worker"]);
  const [where, setWhere] = useState<string[]>(given.namespace ? [given.namespace] : []);
  const [limits, setLimits] = useState(unlimited);
  const [life, setLife] = useState("90");
  const personal = kind === "personal";

  const create = useChange(
    tenant,
    () =>
      admin.keys.createApiKey({
        tenant,
        requestId,
        name,
        kind: kindOf[kind],
        ...(personal ? { owner: "me" } : owner === NEW ? { roles } : { owner }),
        ...fieldsOf(limits),
        namespaces: where,
        expiresAt: life === "0" ? undefined : inDays(Number(life)),
      }),
    { quiet: true },
  );
  const wrong = wrongAbout(create.error);

  return (
    <FormDialog
      size="md"
      onClose={onClose}
      title="New API key"
      description="You'll see the key once. It works right away."
      submit="Create key"
      onSubmit={() => create.mutate(undefined, { onSuccess: (answer) => onCreated(name, answer.secret) })}
      busy={create.isPending}
      blockedBecause={name ? missingOf(limits) : "Enter a name."}
      failure={otherError(create.error)}
    >
      <Field label="Name" hint="Describe what uses this key." error={wrong("name")}>
        <Input autoFocus placeholder="billing worker" value={name} onChange={setName} />
      </Field>
      <Field label="Kind" error={wrong("kind")}>
        <Choice options={kinds} value={kind} onChange={setKind} />
      </Field>
      {personal || given.owner ? null : (
        <OwnerField access={access} value={owner} onChange={setOwner} error={wrong("owner")} />
      )}
      {personal || owner !== NEW ? null : (
        <RolePicker access={access} value={roles} onChange={setRoles} error={wrong("roles")} />
      )}
      <Checks
        dense
        label="Namespaces"
        hint="Leave all of them unchecked for every namespace."
        options={namespaces.map((value) => ({ value, label: value }))}
        value={where}
        onChange={setWhere}
        error={wrong("namespaces")}
      />
      <Field label="Expires" error={wrong("expires_at")}>
        <Choice options={lives} value={life} onChange={setLife} />
      </Field>
      <details>
        <summary className="min-h-6 w-fit cursor-pointer rounded-sm text-13 font-medium text-ink-2 hover:text-ink">
          More limits
        </summary>
        <div className="flex flex-col gap-4 pt-3">
          <LimitsFields value={limits} onChange={setLimits} wrongAbout={wrong} />
        </div>
      </details>
    </FormDialog>
  );
}

interface OwnerFieldProps {
  access: Access;
  value: string;
  onChange: (owner: string) => void;
  error: string | undefined;
}

/** The service account that the key belongs to: one that is there, or one made for the key. */
function OwnerField({ access, value, onChange, error }: OwnerFieldProps) {
  const accounts = useQuery({
    ...principalReads.accounts(access.tenant),
    enabled: access.can(Permission.SERVICE_ACCOUNT_READ),
  });
  return (
    <Field label="Service account" error={error}>
      <Choice
        options={[
          {
            value: NEW,
            label: "New, for this key",
            description: "It gets the key's name, and the roles that you choose.",
          },
          ...(accounts.data ?? []).map((account) => ({
            value: account.id,
            label: account.name,
            description:
              account.roles.length > 0 ? `Has ${account.roles.join(", ")}.` : "The key has its roles.",
          })),
        ]}
        value={value}
        onChange={onChange}
      />
    </Field>
  );
}
