import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleArrowDown, Eraser, Trash2 } from "lucide-react";
import { useState } from "react";
import Confirm from "~/components/confirm";
import { AgeField } from "~/components/retention-field";
import { Button } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input, NativeSelect } from "~/components/ui/field";
import { Tabs } from "~/components/ui/tabs";
import { toast } from "~/components/ui/toast";
import { fieldErrors, otherError } from "~/data/control";
import { jobsApi, type Queue } from "~/data/jobs-api";
import { pageApi } from "~/data/page-api";
import { reads } from "~/data/queries";
import type { Rights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import {
  type QueueRetention,
  type QueueSettings,
  queueSettingsCurl,
  queueTerraform,
} from "~/lib/equivalents";
import { count, parseLimit, plural } from "~/lib/numbers";
import { ageProblem, ageText, keptProblem } from "~/lib/retention";
import { wireDuration, wireMilliseconds } from "~/lib/wire-duration";

const windows = [
  { ms: 1_000, word: "second" },
  { ms: 60_000, word: "minute" },
  { ms: 3_600_000, word: "hour" },
] as const;

function wholeProblem(text: string): string | undefined {
  return parseLimit(text) === undefined
    ? "Enter a whole number above 0, or leave it empty for no limit."
    : undefined;
}

interface RetryForm {
  attempts: string;
  backoff: string;
  base: string;
  most: string;
}

function retryForm(queue: Queue): RetryForm {
  const delay = (ms: number | undefined) => (ms === undefined ? "" : wireDuration(ms));
  return {
    attempts: queue.max_retries === undefined ? "" : String(queue.max_retries),
    backoff: queue.retry_backoff ?? "",
    base: delay(queue.retry_base_delay_ms),
    most: delay(queue.retry_max_delay_ms),
  };
}

type Kept = "completed_ms" | "dead_ms" | "cancelled_ms";

const keeps: readonly { key: Kept; label: string }[] = [
  { key: "completed_ms", label: "Completed jobs" },
  { key: "dead_ms", label: "Dead jobs" },
  { key: "cancelled_ms", label: "Cancelled jobs" },
];

interface QueueDialogProps {
  scope: Scope;
  queue: Queue;
  rights: Rights;
  onClose: () => void;
}

/** The limits and retries of a queue, and its deletion. */
export default function QueueDialog({ scope, queue, rights, onClose }: QueueDialogProps) {
  const client = useQueryClient();
  const off = (permission: Permission) => rights.blocked(permission, queue.name);
  const [max, setMax] = useState(queue.max_concurrency ? String(queue.max_concurrency) : "");
  const [rate, setRate] = useState(queue.rate_limit ? String(queue.rate_limit) : "");
  const [windowMs, setWindowMs] = useState(queue.rate_window_ms ?? 60_000);
  const [retry, setRetry] = useState<RetryForm>(() => retryForm(queue));
  const [kept, setKept] = useState<Record<Kept, number | undefined>>(() => ({
    completed_ms: (queue.retention?.completed_ms ?? 0) / 1000,
    dead_ms: (queue.retention?.dead_ms ?? 0) / 1000,
    cancelled_ms: (queue.retention?.cancelled_ms ?? 0) / 1000,
  }));
  const [most, setMost] = useState(queue.retention?.finished_max ? String(queue.retention.finished_max) : "");
  const [form, setForm] = useState<"terraform" | "curl">("terraform");
  const [asking, setAsking] = useState<"drain" | "clear" | "delete" | null>(null);
  const maxLimit = parseLimit(max);
  const rateLimit = parseLimit(rate);
  const attempts = parseLimit(retry.attempts);
  const mostLimit = parseLimit(most);
  const problems = {
    max: wholeProblem(max),
    rate: wholeProblem(rate),
    attempts: wholeProblem(retry.attempts),
    most: wholeProblem(most) ?? keptProblem(mostLimit, queue.retention_max?.finished_max ?? 0),
  };
  const longest = (key: Kept) => (queue.retention_max?.[key] ?? 0) / 1000;
  const wrong =
    Boolean(problems.max ?? problems.rate ?? problems.attempts ?? problems.most) ||
    keeps.some(({ key }) => kept[key] !== 0 && ageProblem(kept[key], longest(key)) !== undefined);
  const retention: QueueRetention = {
    ...Object.fromEntries(
      keeps.filter(({ key }) => kept[key]).map(({ key }) => [key, (kept[key] ?? 0) * 1000]),
    ),
    ...(mostLimit ? { finished_max: mostLimit } : {}),
  };
  const settings: QueueSettings = {
    ...(maxLimit ? { max_concurrency: maxLimit } : {}),
    ...(rateLimit ? { throttle: { limit: rateLimit, window_ms: windowMs } } : {}),
    ...(attempts ? { max_retries: attempts } : {}),
    ...(retry.backoff ? { retry_backoff: retry.backoff } : {}),
    ...(retry.base.trim() ? { retry_base_delay: retry.base.trim() } : {}),
    ...(retry.most.trim() ? { retry_max_delay: retry.most.trim() } : {}),
    ...(Object.keys(retention).length > 0 ? { retention } : {}),
  };

  const save = useMutation({
    mutationFn: () => jobsApi.setLimits(scope, queue.name, settings),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: reads.queues(scope).queryKey });
      toast({ title: `Saved ${queue.name}`, description: "The settings apply from the next job." });
      onClose();
    },
  });
  const refused = fieldErrors(save.error);
  const inherited = queue.inherited_retention;

  async function changed() {
    await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
    onClose();
  }

  async function remove() {
    await jobsApi.deleteQueue(scope, queue.name);
    toast({ title: `Deleted ${queue.name}` });
    await changed();
  }

  const leased = queue.active + (queue.cancelling ?? 0);
  const idle =
    queue.pending +
    queue.scheduled +
    queue.retrying +
    queue.held +
    queue.dead +
    queue.completed +
    queue.cancelled;
  const busy = queue.pending + queue.scheduled + queue.retrying + leased;

  async function drain() {
    const { remaining } = await pageApi.drain(scope, queue.name);
    toast({ title: `Draining ${queue.name}`, description: `${plural(remaining, "job")} left.` });
    await changed();
  }

  if (asking === "drain") {
    return (
      <Confirm
        onClose={() => setAsking(null)}
        title={`Drain ${queue.name}?`}
        confirmLabel="Drain queue"
        variant="primary"
        onConfirm={drain}
      >
        The queue stops accepting new jobs.{" "}
        {queue.paused
          ? `The queue is also paused, so its ${plural(busy, "job")} won't run until you resume it. Resuming ends both.`
          : `Workers finish the ${plural(busy, "job")} it has, including their follow-up jobs. Resume the queue to accept new jobs again.`}
      </Confirm>
    );
  }
  async function clear() {
    const { removed } = await pageApi.clear(scope, queue.name);
    toast({ title: `Cleared ${queue.name}`, description: `Deleted ${plural(removed, "job")}.` });
    await changed();
  }

  if (asking === "clear") {
    return (
      <Confirm
        onClose={() => setAsking(null)}
        title={`Clear ${queue.name}?`}
        confirmLabel="Clear queue"
        typeToConfirm={queue.name}
        onConfirm={clear}
      >
        This deletes {plural(idle, "job")} and can't be undone. Jobs that a worker has now stay, and so do the
        queue's settings.
      </Confirm>
    );
  }
  if (asking === "delete") {
    return (
      <Confirm
        onClose={() => setAsking(null)}
        title={`Delete ${queue.name}?`}
        confirmLabel="Delete queue"
        typeToConfirm={queue.name}
        onConfirm={remove}
      >
        This deletes its {plural(idle + leased, "job")} and settings, and can't be undone. You can reuse the
        name.
      </Confirm>
    );
  }

  return (
    <FormDialog
      onClose={onClose}
      title={`Edit ${queue.name}`}
      description="Limits apply across all workers, from the next job."
      submit="Save"
      onSubmit={() => (wrong ? undefined : save.mutate())}
      busy={save.isPending}
      failure={otherError(save.error)}
      more={
        <span className="mr-auto -ml-3 flex flex-wrap max-sm:w-full">
          {queue.draining ? null : (
            <Button
              variant="ghost"
              icon={<CircleArrowDown aria-hidden />}
              blockedBecause={off(Permission.QUEUE_PAUSE)}
              onClick={() => setAsking("drain")}
            >
              Drain
            </Button>
          )}
          <Button
            variant="danger-ghost"
            icon={<Eraser aria-hidden />}
            blockedBecause={off(Permission.QUEUE_CLEAR)}
            onClick={() => setAsking("clear")}
          >
            Clear
          </Button>
          <Button
            variant="danger-ghost"
            icon={<Trash2 aria-hidden />}
            blockedBecause={off(Permission.QUEUE_DELETE)}
            onClick={() => setAsking("delete")}
          >
            Delete
          </Button>
        </span>
      }
    >
      <Field
        label="Maximum active jobs"
        hint="Leave empty for no limit. Jobs that are already active keep running."
        error={problems.max ?? refused.max_concurrency}
      >
        <Input inputMode="numeric" placeholder="No limit" value={max} onChange={setMax} />
      </Field>
      <div className="grid grid-cols-[1fr_9rem] items-start gap-2">
        <Field
          label="Rate limit"
          hint="Leave empty for no limit. Retries count too."
          error={problems.rate ?? refused["throttle.limit"] ?? refused.throttle}
        >
          <Input inputMode="numeric" placeholder="No limit" value={rate} onChange={setRate} />
        </Field>
        <Field label="Per">
          <WindowSelect value={windowMs} onChange={setWindowMs} />
        </Field>
      </div>
      <fieldset className="flex flex-col gap-3">
        <legend className="pb-1 text-13 font-medium">
          Retries <span className="font-normal text-ink-3">(defaults for new jobs)</span>
        </legend>
        <div className="grid items-start gap-3 sm:grid-cols-2">
          <Field label="Attempts" error={problems.attempts ?? refused.max_retries}>
            <Input
              inputMode="numeric"
              placeholder="3"
              value={retry.attempts}
              onChange={(attempts) => setRetry({ ...retry, attempts })}
            />
          </Field>
          <Field label="Backoff" error={refused.retry_backoff}>
            <NativeSelect value={retry.backoff} onChange={(backoff) => setRetry({ ...retry, backoff })}>
              <option value="">exponential (default)</option>
              {["exponential", "linear", "fixed", "none"].map((backoff) => (
                <option key={backoff} value={backoff}>
                  {backoff}
                </option>
              ))}
            </NativeSelect>
          </Field>
          <Field label="First delay" error={refused.retry_base_delay}>
            <Input placeholder="5s" value={retry.base} onChange={(base) => setRetry({ ...retry, base })} />
          </Field>
          <Field label="Longest delay" error={refused.retry_max_delay}>
            <Input placeholder="10m" value={retry.most} onChange={(most) => setRetry({ ...retry, most })} />
          </Field>
        </div>
      </fieldset>
      <fieldset className="flex flex-col gap-3">
        <legend className="pb-1 text-13 font-medium">Retention</legend>
        <div className="grid items-start gap-3 sm:grid-cols-2">
          {keeps.map(({ key, label }) => (
            <AgeField
              key={key}
              label={label}
              value={kept[key]}
              onChange={(seconds) => setKept({ ...kept, [key]: seconds })}
              fallback={`Namespace (${ageText((inherited[key] ?? 0) / 1000)})`}
              max={longest(key)}
              error={refused[`retention.${key}`]}
            />
          ))}
          <Field
            label="Finished jobs at most"
            hint={
              queue.retention_max?.finished_max
                ? `At most ${count(queue.retention_max.finished_max)}.`
                : undefined
            }
            error={problems.most ?? refused["retention.finished_max"]}
          >
            <Input
              inputMode="numeric"
              placeholder={inherited.finished_max ? count(inherited.finished_max) : "No limit"}
              value={most}
              onChange={setMost}
            />
          </Field>
        </div>
        <p className="text-12 text-ink-3">
          Finished jobs are deleted this long after they end. This can't be undone.
        </p>
      </fieldset>
      <Tabs
        label="Copy as"
        value={form}
        onChange={setForm}
        panelClassName="pt-3!"
        tabs={[
          {
            value: "terraform",
            label: "Terraform",
            content: (
              <CodeBlock
                label="Terraform"
                language="hcl"
                code={queueTerraform(
                  {
                    name: queue.name,
                    paused: queue.paused,
                    max_concurrency: settings.max_concurrency,
                    rate_limit: settings.throttle?.limit,
                    rate_window_ms: settings.throttle?.window_ms,
                    max_retries: settings.max_retries,
                    retry_backoff: settings.retry_backoff,
                    retry_base_delay_ms: wireMilliseconds(settings.retry_base_delay ?? ""),
                    retry_max_delay_ms: wireMilliseconds(settings.retry_max_delay ?? ""),
                    retention: settings.retention,
                  },
                  scope.namespace,
                )}
              />
            ),
          },
          {
            value: "curl",
            label: "curl",
            content: (
              <CodeBlock label="curl" language="shell" code={queueSettingsCurl(queue.name, settings)} />
            ),
          },
        ]}
      />
    </FormDialog>
  );
}

function WindowSelect({ value, onChange }: { value: number; onChange: (ms: number) => void }) {
  const known = windows.some((window) => window.ms === value);
  return (
    <NativeSelect value={String(value)} onChange={(text) => onChange(Number(text))}>
      {known ? null : <option value={value}>{value} ms</option>}
      {windows.map((window) => (
        <option key={window.ms} value={window.ms}>
          {window.word}
        </option>
      ))}
    </NativeSelect>
  );
}
