import { useState } from "react";
import { AgeField } from "~/components/retention-field";
import { CodeBlock } from "~/components/ui/code";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { useChange } from "~/data/admin-queries";
import { control, fieldErrors, otherError } from "~/data/control";
import type { Namespace, Retention } from "~/gen/corvo/cloud/v1/tenant_pb";
import { namespaceTerraform } from "~/lib/equivalents";
import { count, parseLimit } from "~/lib/numbers";
import { ageProblem, ageText, keptProblem } from "~/lib/retention";

const MB = 2 ** 20;

type Age = "completedSeconds" | "deadSeconds" | "cancelledSeconds" | "eventsSeconds" | "usageSeconds";

const agesOf: readonly { key: Age; label: string; wire: string }[] = [
  { key: "completedSeconds", label: "Completed jobs", wire: "completed_seconds" },
  { key: "deadSeconds", label: "Dead jobs", wire: "dead_seconds" },
  { key: "cancelledSeconds", label: "Cancelled jobs", wire: "cancelled_seconds" },
  { key: "eventsSeconds", label: "Events", wire: "events_seconds" },
  { key: "usageSeconds", label: "Usage", wire: "usage_seconds" },
];

/** A limit in its unit, as people type it; one that was set in another one is rounded up to it. */
function typed(value: bigint | undefined, unit = 1): string {
  return value ? String(Math.ceil(Number(value) / unit)) : "";
}

interface RetentionDialogProps {
  tenant: string;
  namespace: Namespace;
  onClose: () => void;
}

/** How long a namespace keeps finished jobs, events and usage. */
export default function RetentionDialog({ tenant, namespace, onClose }: RetentionDialogProps) {
  const own = namespace.retention;
  const now = namespace.effectiveRetention;
  const most = namespace.retentionMax;
  const [ages, setAges] = useState<Record<Age, number | undefined>>(() => ({
    completedSeconds: Number(own?.completedSeconds ?? 0),
    deadSeconds: Number(own?.deadSeconds ?? 0),
    cancelledSeconds: Number(own?.cancelledSeconds ?? 0),
    eventsSeconds: Number(own?.eventsSeconds ?? 0),
    usageSeconds: Number(own?.usageSeconds ?? 0),
  }));
  const [finished, setFinished] = useState(typed(own?.finishedMax));
  const [megabytes, setMegabytes] = useState(typed(own?.eventsBytesMax, MB));
  const finishedMax = parseLimit(finished);
  const eventsMB = parseLimit(megabytes);
  // What was not touched stays as exact as it was.
  const eventsBytesMax =
    own && megabytes === typed(own.eventsBytesMax, MB) ? own.eventsBytesMax : BigInt((eventsMB ?? 0) * MB);
  const maxOf = (key: keyof Retention & (Age | "finishedMax" | "eventsBytesMax")) => Number(most?.[key] ?? 0);

  const problems = {
    finished: keptProblem(finishedMax, maxOf("finishedMax")),
    megabytes: keptProblem(eventsMB, maxOf("eventsBytesMax") / MB, " MB"),
  };
  const wrong =
    Boolean(problems.finished ?? problems.megabytes) ||
    agesOf.some(({ key }) => ages[key] !== 0 && ageProblem(ages[key], maxOf(key)) !== undefined);

  const retention = {
    ...Object.fromEntries(agesOf.map(({ key }) => [key, BigInt(ages[key] ?? 0)])),
    finishedMax: BigInt(finishedMax ?? 0),
    eventsBytesMax,
  };
  const save = useChange(
    tenant,
    () =>
      control.namespaces.updateNamespace({
        tenant,
        namespace: namespace.id,
        retention,
        updateMask: { paths: ["retention"] },
        etag: namespace.etag,
      }),
    { quiet: true, done: () => `Saved the retention of ${namespace.name}` },
  );
  const refused = fieldErrors(save.error);
  const shorter = agesOf.some(({ key }) => {
    const chosen = ages[key];
    return chosen ? chosen < Number(now?.[key] ?? 0) : false;
  });
  const completed = ages.completedSeconds || Number(now?.completedSeconds ?? 0);

  // With a setting of its own, what the plan would say is not known here.
  const fallback = (key: Age) =>
    own?.[key] || !now?.[key] ? "Plan default" : `Plan default (${ageText(Number(now[key]))})`;
  const field = (key: Age, label: string, wire: string) => (
    <AgeField
      key={key}
      label={label}
      value={ages[key]}
      onChange={(seconds) => setAges({ ...ages, [key]: seconds })}
      fallback={fallback(key)}
      max={maxOf(key)}
      error={refused[`retention.${wire}`]}
    />
  );

  return (
    <FormDialog
      onClose={onClose}
      title={`Retention of ${namespace.name}`}
      description={`Completed jobs are deleted ${ageText(completed)} after they end. This can't be undone.`}
      submit="Save"
      onSubmit={() => (wrong ? undefined : save.mutate(undefined, { onSuccess: onClose }))}
      busy={save.isPending}
      failure={otherError(save.error)}
    >
      <div className="grid items-start gap-3 sm:grid-cols-2">
        {agesOf.slice(0, 3).map(({ key, label, wire }) => field(key, label, wire))}
        <Field
          label="Finished jobs per queue"
          hint="The oldest are deleted first."
          error={problems.finished ?? refused["retention.finished_max"]}
        >
          <Input
            inputMode="numeric"
            placeholder={now?.finishedMax && !own?.finishedMax ? count(Number(now.finishedMax)) : "No limit"}
            value={finished}
            onChange={setFinished}
          />
        </Field>
        {agesOf.slice(3, 4).map(({ key, label, wire }) => field(key, label, wire))}
        <Field
          label="Size of events"
          hint="The oldest are deleted first."
          error={problems.megabytes ?? refused["retention.events_bytes_max"]}
        >
          <Input
            inputMode="numeric"
            suffix="MB"
            placeholder={
              now?.eventsBytesMax && !own?.eventsBytesMax ? count(Number(now.eventsBytesMax) / MB) : ""
            }
            value={megabytes}
            onChange={setMegabytes}
          />
        </Field>
        {agesOf.slice(4).map(({ key, label, wire }) => field(key, label, wire))}
      </div>
      <p className="text-13 text-ink-2">
        A queue can have its own retention for finished jobs; see its settings.
        {shorter ? " What is older than you choose here is deleted within minutes after you save." : ""}
      </p>
      <CodeBlock label="Terraform" language="hcl" code={namespaceTerraform(namespace.name, retention)} />
    </FormDialog>
  );
}
