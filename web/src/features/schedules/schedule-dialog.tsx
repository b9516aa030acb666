import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input, Textarea } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { DataError } from "~/data/jobs-api";
import { pageApi, type Schedule } from "~/data/page-api";
import { reads } from "~/data/queries";
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
  /** The one to change; without it a new one is made. */
  schedule?: Schedule | undefined;
  /** When an expression would run; handed in, because the page has the parts already. */
  preview: (cron: string, timezone: string) => ReactNode;
  onClose: () => void;
}

/** Makes or changes a schedule, and shows when it would run while it is typed. */
export default function ScheduleDialog({ scope, schedule, preview, onClose }: ScheduleDialogProps) {
  const client = useQueryClient();
  const queues = useQuery(reads.queues(scope));
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
  const refused: Problems = save.error instanceof DataError ? save.error.fields : {};
  const own = problemsOf(form);
  const problem = (name: keyof ScheduleForm) => (tried ? own[name] : undefined) ?? refused[name];
  const set = (name: keyof ScheduleForm) => (value: string) => {
    setForm((was) => ({ ...was, [name]: value }));
    // A refusal is about what was sent, not about what is typed now.
    if (save.error) save.reset();
  };
  const input = (name: keyof ScheduleForm) => ({
    value: form[name],
    onChange: (event: { target: { value: string } }) => set(name)(event.target.value),
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    setTried(true);
    if (Object.keys(own).length === 0 && !save.isPending) save.mutate();
  }

  return (
    <Dialog
      open
      onOpenChange={onClose}
      size="md"
      title={schedule ? `Edit ${schedule.name}` : "New schedule"}
      description="Enqueues a job each time its cron expression matches, exactly once."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="schedule" variant="primary" busy={save.isPending}>
            {schedule ? "Save" : "Create"}
          </Button>
        </>
      }
    >
      <form id="schedule" onSubmit={submit} className="flex flex-col gap-4" noValidate>
        {save.error && Object.keys(refused).length === 0 ? (
          <Banner tone="danger" title={describeError(save.error)} />
        ) : null}
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <Field label="Name" error={problem("name")}>
            <Input autoFocus autoComplete="off" placeholder="nightly-report" {...input("name")} />
          </Field>
          <Field label="Queue" error={problem("queue")}>
            <Input autoComplete="off" list="schedule-queues" placeholder="reports" {...input("queue")} />
          </Field>
          <Field label="Cron expression" error={problem("cron")}>
            <Input mono autoComplete="off" placeholder="0 2 * * 1-5" {...input("cron")} />
          </Field>
          <Field label="Time zone" error={problem("timezone")}>
            <Input autoComplete="off" list="schedule-zones" placeholder="UTC" {...input("timezone")} />
          </Field>
        </div>
        <datalist id="schedule-queues">
          {(queues.data ?? []).map((queue) => (
            <option key={queue.name} value={queue.name} />
          ))}
        </datalist>
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
              <Input autoComplete="off" {...input("jitter")} />
            </Field>
            <Field
              label="Expires after"
              note="optional"
              hint="Jobs not completed by then become dead, for example 1h."
              error={problem("expire_after")}
            >
              <Input autoComplete="off" {...input("expire_after")} />
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
              <Input inputMode="numeric" autoComplete="off" {...input("max_retries")} />
            </Field>
            <Field
              label="Tags"
              note="optional"
              className="sm:col-span-2"
              hint="Use key:value, separated by commas."
              error={problem("tags")}
            >
              <Input autoComplete="off" placeholder="team:ops, kind:report" {...input("tags")} />
            </Field>
          </div>
        </details>
      </form>
    </Dialog>
  );
}

function zones(): string[] {
  const known = Intl.supportedValuesOf("timeZone");
  return known.includes("UTC") ? known : ["UTC", ...known];
}
