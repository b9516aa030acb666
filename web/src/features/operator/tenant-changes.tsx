import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { Switch } from "~/components/ui/switch";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import { operatorReads, operators, useOperatorChange } from "~/data/operator";
import type { EntitlementKind } from "~/gen/corvo/cloud/v1/operator_pb";
import { dayText, endOfDay } from "~/lib/day";
import { parseWhole } from "~/lib/numbers";
import { removeOverrideCommand, setOverrideCommand, setPlanCommand } from "~/lib/operator-equivalents";
import { dateOf } from "~/lib/proto-time";
import { Command } from "./command";

interface TenantDialogProps {
  /** Its name. */
  tenant: string;
  onClose: () => void;
}

const DAYS = 30;

function Reason(props: { value: string; onChange: (text: string) => void; error: string | undefined }) {
  return (
    <Field label="Reason" hint="The tenant reads it in its audit log." error={props.error}>
      <Input value={props.value} onChange={props.onChange} placeholder="Contract 17" maxLength={500} />
    </Field>
  );
}

/** Gives a tenant another plan at once. */
export function SetPlanDialog({ tenant, plan: has, onClose }: TenantDialogProps & { plan: string }) {
  const plans = useQuery(operatorReads.plans());
  const names = [...new Set(plans.data?.versions.map(({ spec }) => spec?.name ?? ""))];
  const [chosen, setChosen] = useState("");
  const [reason, setReason] = useState("");
  const plan = chosen || has;
  const save = useOperatorChange(
    () => operators.setTenantPlan({ tenant, plan, reason }),
    () => `${tenant} has the plan ${plan}`,
  );
  const wrong = wrongAbout(save.error);
  return (
    <FormDialog
      onClose={onClose}
      title="Change plan"
      description={`${tenant} gets the newest version at once, whether or not what it has fits. What is older than a smaller plan keeps is deleted.`}
      submit="Change plan"
      size="md"
      onSubmit={() => save.mutate(undefined, { onSuccess: onClose })}
      busy={save.isPending}
      failure={otherError(save.error)}
    >
      <Field label="Plan" error={wrong("plan")}>
        <Choice
          options={(names.length > 0 ? names : [has]).map((value) => ({ value, label: value }))}
          value={plan}
          onChange={setChosen}
        />
      </Field>
      <Reason value={reason} onChange={setReason} error={wrong("reason")} />
      <Command code={setPlanCommand(tenant, plan, reason)} />
    </FormDialog>
  );
}

/** Gives a tenant more or less of something than its plan does. */
export function OverrideDialog({
  tenant,
  kinds,
  onClose,
}: TenantDialogProps & { kinds: readonly EntitlementKind[] }) {
  const [name, setName] = useState("namespaces_max");
  const [text, setText] = useState("");
  const [unlimited, setUnlimited] = useState(false);
  const [reason, setReason] = useState("");
  const [end, setEnd] = useState(dayText(new Date(Date.now() + DAYS * 86_400_000)));
  const [tried, setTried] = useState(false);
  const kind = kinds.find((candidate) => candidate.name === name);
  const value = parseWhole(text);
  const save = useOperatorChange(
    () =>
      operators.setOverride({ tenant, name, value: value ?? 0n, unlimited, reason, endsAt: endOfDay(end) }),
    () => `${tenant} has its own ${name}`,
  );
  const wrong = wrongAbout(save.error);
  const ends = dateOf(endOfDay(end))?.toISOString().replace(/\.\d+/, "");
  return (
    <FormDialog
      onClose={onClose}
      title="Set override"
      description={`Counts for ${tenant} in place of its plan until it ends.`}
      submit="Set override"
      size="md"
      onSubmit={() => {
        setTried(true);
        if (unlimited || value !== undefined) save.mutate(undefined, { onSuccess: onClose });
      }}
      busy={save.isPending}
      failure={otherError(save.error)}
    >
      <Field label="Entitlement">
        <Choice
          options={kinds.map((each) => ({
            value: each.name,
            label: each.title === each.name ? each.name : `${each.title} (${each.name})`,
          }))}
          value={name}
          onChange={setName}
        />
      </Field>
      <Field
        label="Value"
        hint={kind?.max === 1n ? "1 is with the feature, 0 is without." : kind?.unit || undefined}
        error={
          tried && !unlimited && value === undefined ? "Enter a whole number, for example 100." : wrong(name)
        }
      >
        <Input
          inputMode="numeric"
          value={unlimited ? "" : text}
          onChange={setText}
          disabled={unlimited}
          placeholder={unlimited ? "No limit" : undefined}
        />
      </Field>
      <Field label="No limit">
        <Switch checked={unlimited} onChange={setUnlimited} />
      </Field>
      <Field label="Until the end of" hint="Then the plan counts again." error={wrong("ends_at")}>
        <Input type="date" value={end} onChange={setEnd} />
      </Field>
      <Reason value={reason} onChange={setReason} error={wrong("reason")} />
      <Command code={setOverrideCommand(tenant, name, unlimited ? "unlimited" : text, reason, ends ?? "")} />
    </FormDialog>
  );
}

/** Lets a tenant's plan count again. */
export function RemoveOverrideDialog({ tenant, name, onClose }: TenantDialogProps & { name: string }) {
  const [reason, setReason] = useState("");
  const remove = useOperatorChange(
    () => operators.removeOverride({ tenant, name, reason }),
    () => `The plan of ${tenant} counts again for ${name}`,
  );
  return (
    <FormDialog
      onClose={onClose}
      title="Remove override"
      description={`${tenant} gets what its plan gives of ${name}, at once.`}
      submit="Remove override"
      variant="danger"
      onSubmit={() => remove.mutate(undefined, { onSuccess: onClose })}
      busy={remove.isPending}
      failure={otherError(remove.error)}
    >
      <Reason value={reason} onChange={setReason} error={wrongAbout(remove.error)("reason")} />
      <Command code={removeOverrideCommand(tenant, name, reason)} />
    </FormDialog>
  );
}
