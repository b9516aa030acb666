import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { QueueInput } from "~/components/queues/queue-input";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { fieldErrors, otherError } from "~/data/control";
import { pageApi, type Schedule } from "~/data/page-api";
import type { Scope } from "~/data/token";
import { formOf, type Problems, problemsOf, type ScheduleForm, settingsOf } from "~/lib/schedule-form";

const overlaps = [
  { value: "allow", label: "Run anyway", description: "Jobs may overlap." },
  { value: "skip", label: "Skip this run", description: "The previous job continues." },
  { value: "cancel", label: "Cancel the previous job", description: "The new job replaces it." },
] as const;

const catchUps = [
  { value: "once", label: "Run once", description: "For the latest missed run." },
  { value: "skip", label: "Skip them", description: "Continue with the next run." },
  { value: "all", label: "Run all of them", description: "Up to the latest 100." },
] as const;

const priorities = ["normal", "high", "critical"].map((value) => ({ value, label: value }));

interface ScheduleDialogProps {
  scope: Scope;
  /** The one to change; unset creates a new one. */
  schedule?: Schedule | undefined;
  /** Why it can't be saved. */
  blockedBecause?: string | undefined;
  /** When an expression would run; handed in, because the page has the parts already. */
  preview: (cron: string, timezone: string) => ReactNode;
  onClose: () => void;
}

/** Makes or changes a schedule, and shows when it would run while it is typed. */
export default function ScheduleDialog({
  scope,
  schedule,
  blockedBecause,
  preview,
  onClose,
}: ScheduleDialogProps) {
  const client = useQueryClient();
  const [form, setForm] = useState<ScheduleForm>(() =>
    formOf(schedule, Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"),
  );
  const [tried, setTried] = useState(false);
  const save = useMutation({
    mutationFn: () => {
      const settings = settingsOf(form, schedule);
      return schedule
        ? pageApi.changeSchedule(scope, schedule.id, settings)
        : pageApi.createSchedule(scope, settings);
    },
    onSuccess: async ({ name }) => {
      toast({ title: schedule ? `Saved ${name}` : `Created ${name}` });
      await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "schedules"] });
      onClose();
    },
  });
  const refused: Problems = fieldErrors(save.error);
  const own = problemsOf(form);
  const problem = (name: keyof ScheduleForm) => (tried ? own[name] : undefined) ?? refused[name];
  const set = (name: keyof ScheduleForm) => (value: string) => {
    setForm((was) => ({ ...was, [name]: value }));
    // A refusal is about what was sent, not about what is typed now.
    if (save.error) save.reset();
  };
  const input = (name: keyof ScheduleForm) => ({ value: form[name], onChange: set(name) });

  function submit() {
    setTried(true);
    if (Object.keys(own).length === 0) save.mutate();
  }

  return (
    <FormDialog
      onClose={onClose}
      size="md"
      title={schedule ? `Edit ${schedule.name}` : "New schedule"}
      description="Enqueues a job each time its cron expression matches, exactly once."
      submit={schedule ? "Save" : "Create"}
      onSubmit={submit}
      busy={save.isPending}
      blockedBecause={blockedBecause}
      failure={otherError(save.error)}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <Field label="Name" error={problem("name")}>
          <Input autoFocus placeholder="nightly-report" {...input("name")} />
        </Field>
        <Field label="Queue" error={problem("queue")}>
          <QueueInput scope={scope} placeholder="reports" {...input("queue")} />
        </Field>
        <Field label="Cron expression" error={problem("cron")}>
          <Input mono placeholder="0 2 * * 1-5" {...input("cron")} />
        </Field>
        <Field label="Time zone" error={problem("timezone")}>
          <Input list="schedule-zones" placeholder="UTC" {...input("timezone")} />
        </Field>
      </div>
      <datalist id="schedule-zones">
        {zones().map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      {preview(form.cron, form.timezone)}
      <Field label="Payload" hint="JSON, passed to every job." error={problem("payload")}>
        <Textarea className="min-h-20" {...input("payload")} />
      </Field>
      <details className="group" open={Boolean(schedule)}>
        <summary className="min-h-6 cursor-pointer rounded-sm text-13 font-medium text-ink-2 hover:text-ink">
          Overlap, missed runs and job options
        </summary>
        <div className="grid items-start gap-4 pt-3 sm:grid-cols-2">
          <Field label="If the previous job is still running">
            <Choice options={overlaps} value={form.overlap} onChange={set("overlap")} />
          </Field>
          <Field label="Missed runs">
            <Choice options={catchUps} value={form.catch_up} onChange={set("catch_up")} />
          </Field>
          <Field
            label="Jitter"
            note="optional"
            hint="Random delay up to this long, for example 30s."
            error={problem("jitter")}
          >
            <Input {...input("jitter")} />
          </Field>
          <Field
            label="Expires after"
            note="optional"
            hint="Jobs not completed by then become dead, for example 1h."
            error={problem("expire_after")}
          >
            <Input {...input("expire_after")} />
          </Field>
          <Field label="Priority">
            <Choice options={priorities} value={form.priority} onChange={set("priority")} />
          </Field>
          <Field
            label="Attempts"
            note="optional"
            hint="Leave empty to use the queue's default."
            error={problem("max_retries")}
          >
            <Input inputMode="numeric" {...input("max_retries")} />
          </Field>
          <Field
            label="Tags"
            note="optional"
            className="sm:col-span-2"
            hint="Use key:value, separated by commas."
            error={problem("tags")}
          >
            <Input placeholder="team:ops, kind:report" {...input("tags")} />
          </Field>
        </div>
      </details>
    </FormDialog>
  );
}

function zones(): string[] {
  const known = Intl.supportedValuesOf("timeZone");
  return known.includes("UTC") ? known : ["UTC", ...known];
}
