import { useState } from "react";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { useChange } from "~/data/admin-queries";
import { billing } from "~/data/billing";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import type { SpendLimit } from "~/gen/corvo/cloud/v1/usage_pb";
import { currencySign, money, parseMoney, typedMoney } from "~/lib/money";
import { parsePercents } from "~/lib/percents";
import { spendActions } from "./spend-actions";

// What a limit begins with.
const ALERTS = "80, 100";

interface SpendDialogProps {
  tenant: string;
  limit: SpendLimit;
  onClose: () => void;
}

/** Sets or changes the spend limit. */
export default function SpendDialog({ tenant, limit, onClose }: SpendDialogProps) {
  const { currency } = limit;
  const was = limit.amount > 0n;
  const [amount, setAmount] = useState(was ? typedMoney(limit.amount, currency) : "");
  const [action, setAction] = useState(was ? limit.action : "alert");
  const [alerts, setAlerts] = useState(was ? limit.alertPercents.join(", ") : ALERTS);
  const [tried, setTried] = useState(false);
  const parsed = parseMoney(amount, currency);
  const percents = parsePercents(alerts);
  const save = useChange(
    tenant,
    () =>
      billing.usage.setSpendLimit({
        tenant,
        limit: { amount: parsed ?? 0n, currency, action, alertPercents: percents ?? [], etag: limit.etag },
      }),
    { quiet: true, done: () => `Set the spend limit to ${money(parsed ?? 0n, currency)} a month` },
  );
  const wrong = wrongAbout(save.error);
  const submit = () => {
    setTried(true);
    if (parsed !== undefined && percents) save.mutate(undefined, { onSuccess: onClose });
  };
  return (
    <FormDialog
      onClose={onClose}
      title={was ? "Edit spend limit" : "Set spend limit"}
      description="Counts what this month costs, before tax. It starts at zero with each month in UTC."
      submit={was ? "Save spend limit" : "Set spend limit"}
      onSubmit={submit}
      busy={save.isPending}
      failure={otherError(save.error)}
    >
      <Field
        label="Amount per month"
        error={
          tried && parsed === undefined
            ? `Enter an amount above zero, for example ${typedMoney(20000n, currency)}.`
            : wrong("limit.amount")
        }
      >
        <Input inputMode="decimal" prefix={currencySign(currency)} value={amount} onChange={setAmount} />
      </Field>
      <Field label="When the limit is reached" error={wrong("limit.action")}>
        <Choice options={spendActions} value={action} onChange={setAction} />
      </Field>
      <Field
        label="Emails at"
        note="optional"
        hint="Percentages of the limit, at most five. Owners and billing emails get them."
        error={
          tried && !percents
            ? "Enter up to five different numbers from 1 to 100, for example 50, 80, 100."
            : wrong("limit.alert_percents")
        }
      >
        <Input inputMode="numeric" suffix="%" placeholder="50, 80, 100" value={alerts} onChange={setAlerts} />
      </Field>
    </FormDialog>
  );
}
