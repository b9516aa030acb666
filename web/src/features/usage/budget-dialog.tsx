import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { QueueInput } from "~/components/queues/queue-input";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { fieldErrors, otherError } from "~/data/control";
import { type Budget, type BudgetSettings, pageApi } from "~/data/page-api";
import type { Scope } from "~/data/token";

const scopes = [
  { value: "global", label: "Whole namespace" },
  { value: "queue", label: "a queue" },
  { value: "tag", label: "a tag" },
] as const;

const deeds = [
  { value: "hold", label: "Hold", description: "Jobs wait until 00:00 UTC." },
  { value: "reject", label: "Reject", description: "New jobs are rejected." },
  { value: "alert_only", label: "Alert only", description: "Jobs continue; an event is sent." },
] as const;

const amount = (text: string) =>
  /^\d+(\.\d{1,9})?$/.test(text.trim()) && Number(text) > 0 ? Number(text) : undefined;

interface BudgetDialogProps {
  scope: Scope;
  /** The one to change; unset creates a new one. */
  budget?: Budget | undefined;
  onClose: () => void;
}

/** Makes or changes a budget: what models may cost. */
export default function BudgetDialog({ scope, budget, onClose }: BudgetDialogProps) {
  const client = useQueryClient();
  const [kind, setKind] = useState<Budget["scope"]>(budget?.scope ?? "global");
  const [target, setTarget] = useState(budget && budget.scope !== "global" ? budget.target : "");
  const [daily, setDaily] = useState(budget?.daily_usd ? String(budget.daily_usd) : "");
  const [perJob, setPerJob] = useState(budget?.per_job_usd ? String(budget.per_job_usd) : "");
  const [on, setOn] = useState<Budget["on_exceed"]>(budget?.on_exceed ?? "hold");
  const [tried, setTried] = useState(false);
  const wrong = (text: string) =>
    text.trim() && amount(text) === undefined
      ? "Enter an amount in dollars, for example 20 or 0.50."
      : undefined;
  const own = {
    target: kind !== "global" && !target.trim() ? `Enter a ${kind}.` : undefined,
    daily:
      wrong(daily) ??
      (!daily.trim() && !perJob.trim() ? "Set a daily limit, a limit per job, or both." : undefined),
    perJob: wrong(perJob),
  };

  const save = useMutation({
    mutationFn: () => {
      const settings: BudgetSettings = {
        scope: kind,
        target: kind === "global" ? "*" : target.trim(),
        on_exceed: on,
        ...(daily.trim() ? { daily_usd: amount(daily) ?? 0 } : {}),
        ...(perJob.trim() ? { per_job_usd: amount(perJob) ?? 0 } : {}),
      };
      return pageApi.putBudget(scope, settings);
    },
    onSuccess: async () => {
      toast({
        title: budget ? "Budget saved" : "Budget created",
        description: "It applies from now on.",
      });
      await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "budgets"] });
      onClose();
    },
  });
  const refused = fieldErrors(save.error);

  function submit() {
    setTried(true);
    if (!own.target && !own.daily && !own.perJob) save.mutate();
  }

  return (
    <FormDialog
      onClose={onClose}
      title={budget ? "Edit budget" : "New budget"}
      description="Limits what jobs spend on models, as reported by workers."
      submit={budget ? "Save" : "Create"}
      onSubmit={submit}
      busy={save.isPending}
      failure={otherError(save.error)}
    >
      <Field label="Applies to" error={refused.scope}>
        <Choice options={scopes} value={kind} onChange={setKind} disabled={budget !== undefined} />
      </Field>
      {kind === "queue" ? (
        <Field label="Queue" error={(tried ? own.target : undefined) ?? refused.target}>
          <QueueInput
            scope={scope}
            placeholder="summarize"
            disabled={budget !== undefined}
            value={target}
            onChange={setTarget}
          />
        </Field>
      ) : kind === "tag" ? (
        <Field label="Tag" hint="As key:value." error={(tried ? own.target : undefined) ?? refused.target}>
          <Input
            placeholder="customer:acme"
            disabled={budget !== undefined}
            value={target}
            onChange={setTarget}
          />
        </Field>
      ) : null}
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <Field
          label="Daily limit"
          note="in UTC, optional"
          error={(tried ? own.daily : undefined) ?? refused.daily_usd}
        >
          <Input inputMode="decimal" prefix="$" value={daily} onChange={setDaily} />
        </Field>
        <Field
          label="Limit per job"
          note="optional"
          error={(tried ? own.perJob : undefined) ?? refused.per_job_usd}
        >
          <Input inputMode="decimal" prefix="$" value={perJob} onChange={setPerJob} />
        </Field>
      </div>
      <Field label="When the limit is reached" error={refused.on_exceed}>
        <Choice options={deeds} value={on} onChange={setOn} />
      </Field>
    </FormDialog>
  );
}
