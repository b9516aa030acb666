import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ArrowRightLeft, Ban, Check, CirclePause, RotateCw, Trash2, X } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Attempts, Timeline } from "~/components/jobs/timeline";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { Page } from "~/components/ui/page";
import { ProgressBar } from "~/components/ui/progress";
import { SkeletonRows } from "~/components/ui/skeleton";
import { StateBadge } from "~/components/ui/state-badge";
import { type Tab, Tabs } from "~/components/ui/tabs";
import { Time, useNow } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { Detail } from "~/components/work/detail";
import { Back, Id, JobName, Unseen } from "~/components/work/parts";
import { Who } from "~/components/work/who";
import { describeError } from "~/data/control";
import { type Job, jobsApi, type TimelineEvent } from "~/data/jobs-api";
import { pageReads } from "~/data/page-queries";
import { reads } from "~/data/queries";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import type { Verb } from "~/features/approvals/decide-dialog";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { jobEquivalents } from "~/lib/equivalents";
import { jobSentence } from "~/lib/job-sentence";
import { canHold, canMove, waits } from "~/lib/job-verbs";
import { dollars } from "~/lib/money";
import { bytes, compact, count } from "~/lib/numbers";
import { progressOf } from "~/lib/progress";
import { useShortcuts } from "~/lib/shortcuts";
import { canCancel, canRetry, startsEarly } from "~/lib/states";
import { duration } from "~/lib/time";

const route = getRouteApi("/$tenant/$namespace/jobs/$job");
const Confirm = lazy(() => import("~/components/confirm"));
const DecideDialog = lazy(() => import("~/features/approvals/decide-dialog"));
const MoveDialog = lazy(() => import("~/features/jobs/move-dialog"));
const Iterations = lazy(() => import("~/features/jobs/iterations"));
const WhyCard = lazy(() => import("~/features/jobs/why"));
const Relations = lazy(() => import("~/features/jobs/relations"));

/** Everything about one job. */
export function JobPage() {
  const { job: id, ...scope } = route.useParams();
  const query = useQuery(reads.job(scope, id));
  useCopyAs(jobEquivalents(id));

  return (
    <Detail
      what="job"
      gone="Finished jobs are deleted when their retention ends, so it may have been deleted. The link may also be wrong."
      query={query}
      {...frameOf(scope, id)}
    >
      {(job) => <Loaded scope={scope} job={job} />}
    </Detail>
  );
}

function frameOf(scope: Scope, id: string) {
  return {
    title: `Job ${id}`,
    heading: <Id id={id} />,
    above: (
      <Back scope={scope} to="/$tenant/$namespace/jobs">
        Jobs
      </Back>
    ),
  };
}

type Asking = "cancel" | "delete" | "move" | Verb | null;

function Loaded({ scope, job }: { scope: Scope; job: Job }) {
  const rights = useRights(scope);
  const { tab = "timeline" } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/jobs/$job" });
  const client = useQueryClient();
  const now = useNow();
  const queues = useQuery(reads.queues(scope));
  const timeline = useQuery(reads.timeline(scope, job.id));
  const [asking, setAsking] = useState<Asking>(null);
  const queue = queues.data?.find((entry) => entry.name === job.queue);
  const why = useQuery({ ...pageReads.why(scope, job.id), enabled: job.state === "pending" });
  const sentence = jobSentence(job, queue, Math.max(now, Date.now()), why.data?.reasons);
  const events: readonly TimelineEvent[] | undefined =
    timeline.data ?? (timeline.error ? job.timeline : undefined);
  const blocked = (permission: Permission) => rights.blocked(permission, job.queue);
  const deleteBlocked = blocked(Permission.JOB_DELETE);
  const decideBlocked = blocked(Permission.JOB_APPROVE);
  const early = startsEarly(job.state);
  const retryBlocked =
    blocked(Permission.JOB_RETRY) ??
    (canRetry(job.state)
      ? undefined
      : `This job is ${job.state}. You can retry it once it is dead, cancelled or completed.`);
  const cancelBlocked =
    blocked(Permission.JOB_CANCEL) ??
    (canCancel(job.state) ? undefined : `You can't cancel a job that is ${job.state}.`);
  const holdBlocked =
    decideBlocked ?? (canHold(job.state) ? undefined : `You can't hold a job that is ${job.state}.`);
  const moveBlocked =
    blocked(Permission.JOB_MOVE) ??
    (canMove(job.state) ? undefined : "You can't move a job while a worker is running it.");
  const progress = job.state === "active" ? progressOf(job.progress) : undefined;
  const held = job.state === "held";

  async function changed() {
    await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
  }

  const retry = useMutation({
    mutationFn: () => jobsApi.retry(scope, job.id),
    onSuccess: () => {
      toast({
        title: early ? "Job started early" : "Job retried",
        description: `${job.id} is pending in ${job.queue}.`,
      });
      return changed();
    },
    onError: (error) =>
      toast({
        kind: "error",
        title: early ? "Couldn't run the job" : "Couldn't retry the job",
        description: describeError(error),
      }),
  });

  async function cancel() {
    const { status } = await jobsApi.cancel(scope, job.id);
    toast({ title: status === "cancelling" ? "Asked the worker to stop" : "Job cancelled" });
    await changed();
  }

  async function remove() {
    await jobsApi.remove(scope, job.id);
    toast({ title: "Job deleted", description: job.id });
    client.removeQueries({ queryKey: reads.job(scope, job.id).queryKey });
    await navigate({ to: "/$tenant/$namespace/jobs", params: scope });
    void changed();
  }

  useShortcuts({
    r: () => {
      if (!retryBlocked && !retry.isPending) retry.mutate();
    },
    c: () => {
      if (!cancelBlocked) setAsking("cancel");
    },
    d: () => {
      if (!deleteBlocked) setAsking("delete");
    },
    h: () => {
      if (!held && !holdBlocked) setAsking("hold");
    },
    a: () => {
      if (held && !decideBlocked) setAsking("approve");
    },
    x: () => {
      if (held && !decideBlocked) setAsking("reject");
    },
    m: () => {
      if (!moveBlocked) setAsking("move");
    },
    u: () => void navigate({ to: "/$tenant/$namespace/jobs", params: scope }),
  });

  const tabs: Tab<"timeline" | "payload" | "result" | "errors" | "iterations">[] = [
    {
      value: "timeline",
      label: "Timeline",
      content:
        events === undefined ? (
          <SkeletonRows rows={5} columns={2} label="Loading timeline" />
        ) : (
          <div className="flex flex-col gap-5">
            <Attempts events={events} iteration={job.agent?.iteration} />
            <Timeline events={events} iteration={job.agent?.iteration} />
            {events.length === 0 ? (
              <p className="py-6 text-center text-13 text-ink-3">
                The events of this job are no longer kept.
              </p>
            ) : null}
          </div>
        ),
    },
    ...(job.agent
      ? [
          {
            value: "iterations" as const,
            label: "Iterations",
            content: (
              <Suspense fallback={<SkeletonRows rows={3} columns={3} label="Loading iterations" />}>
                <Iterations
                  scope={scope}
                  job={job}
                  agent={job.agent}
                  blockedBecause={blocked(Permission.JOB_RETRY)}
                />
              </Suspense>
            ),
          },
        ]
      : []),
    {
      value: "payload",
      label: "Payload",
      content: job.redacted ? <Unseen /> : <Value name="Payload" text={job.payload} />,
    },
    {
      value: "result",
      label: "Result",
      content: job.redacted ? (
        <Unseen />
      ) : (
        <div className="flex flex-col gap-4">
          {job.result === undefined && job.checkpoint === undefined && job.progress === undefined ? (
            <p className="py-6 text-center text-13 text-ink-3">
              No result yet. What the worker returns appears here.
            </p>
          ) : null}
          {job.result === undefined ? null : <Value name="Result" text={job.result} />}
          {job.progress === undefined ? null : <Value name="Progress" text={job.progress} />}
          {job.checkpoint === undefined ? null : <Value name="Checkpoint" text={job.checkpoint} />}
        </div>
      ),
    },
    {
      value: "errors",
      label: "Errors",
      ...(job.errors?.length ? { count: job.errors.length } : {}),
      content: <Errors job={job} />,
    },
  ];

  return (
    <Page
      {...frameOf(scope, job.id)}
      actions={
        <>
          {held ? (
            <>
              <Button
                icon={<Check aria-hidden />}
                variant="primary"
                blockedBecause={decideBlocked}
                onClick={() => setAsking("approve")}
              >
                Approve
              </Button>
              <Button
                icon={<X aria-hidden />}
                blockedBecause={decideBlocked}
                onClick={() => setAsking("reject")}
              >
                Reject
              </Button>
            </>
          ) : (
            <>
              <Button
                icon={<RotateCw aria-hidden />}
                variant="primary"
                busy={retry.isPending}
                blockedBecause={retryBlocked}
                onClick={() => retry.mutate()}
              >
                {early ? "Run now" : "Retry"}
              </Button>
              <Button
                icon={<CirclePause aria-hidden />}
                blockedBecause={holdBlocked}
                onClick={() => setAsking("hold")}
              >
                Hold
              </Button>
            </>
          )}
          <Button
            icon={<ArrowRightLeft aria-hidden />}
            blockedBecause={moveBlocked}
            onClick={() => setAsking("move")}
          >
            Move
          </Button>
          <Button
            icon={<Ban aria-hidden />}
            blockedBecause={cancelBlocked}
            onClick={() => setAsking("cancel")}
          >
            Cancel
          </Button>
          <Button
            icon={<Trash2 aria-hidden />}
            variant="danger-ghost"
            blockedBecause={deleteBlocked}
            onClick={() => setAsking("delete")}
          >
            Delete
          </Button>
        </>
      }
    >
      <div role="status" className="-mt-2 flex flex-wrap items-start gap-x-3 gap-y-1.5">
        <StateBadge state={job.state} />
        <p className="max-w-3xl min-w-0 basis-60 grow text-13 leading-5.5 wrap-anywhere text-ink-2">
          <span className="font-medium text-ink">{sentence.what}</span> {sentence.next}
        </p>
      </div>

      {progress ? <ProgressBar progress={progress} className="-mt-2 max-w-xl" /> : null}
      {waits(job.state) ? (
        <Suspense>
          <WhyCard scope={scope} id={job.id} />
        </Suspense>
      ) : null}
      {job.chain_id || job.depends_on?.length ? (
        <Suspense>
          <Relations scope={scope} job={job} />
        </Suspense>
      ) : null}
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <Card>
          <div className="-mt-2">
            <Tabs
              label="Job details"
              value={tab === "iterations" && !job.agent ? "timeline" : tab}
              onChange={(next) =>
                void navigate({
                  search: next === "timeline" ? {} : { tab: next },
                  replace: true,
                  resetScroll: false,
                })
              }
              tabs={tabs}
            />
          </div>
        </Card>
        <Card title="Details">
          <Facts items={facts(scope, job)} />
        </Card>
      </div>

      <Suspense>
        {asking === "hold" || asking === "approve" || asking === "reject" ? (
          <DecideDialog scope={scope} job={job} verb={asking} onClose={() => setAsking(null)} />
        ) : null}
        {asking === "move" ? <MoveDialog scope={scope} job={job} onClose={() => setAsking(null)} /> : null}
        {asking === "cancel" ? (
          <Confirm
            onClose={() => setAsking(null)}
            title="Cancel this job?"
            confirmLabel="Cancel job"
            cancelLabel="Keep job"
            onConfirm={cancel}
          >
            {job.state === "active" ? (
              <>
                {job.worker_id ?? "The worker"} is asked to stop <JobName id={job.id} /> at its next
                heartbeat. Work it has done by then isn't undone.
              </>
            ) : (
              <>
                <JobName id={job.id} /> won't run. You can retry it later.
              </>
            )}
          </Confirm>
        ) : null}
        {asking === "delete" ? (
          <Confirm
            onClose={() => setAsking(null)}
            title="Delete this job?"
            confirmLabel="Delete job"
            onConfirm={remove}
          >
            This deletes the payload, result and errors of <JobName id={job.id} />, and can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </Page>
  );
}

function Value({ name, text }: { name: string; text: string }) {
  const size = new Blob([text]).size;
  return (
    <CodeBlock
      code={text}
      language="json"
      label={name}
      wrap
      title={
        <>
          {name} <span className="nums text-ink-3">· {bytes(size)}</span>
        </>
      }
      maxHeight="max-h-160"
    />
  );
}

function Errors({ job }: { job: Job }) {
  if (!job.errors?.length) return <p className="py-6 text-center text-13 text-ink-3">No failed attempts.</p>;
  return (
    <ol className="flex flex-col gap-4">
      {[...job.errors].reverse().map((error) => (
        <li key={`${error.attempt}-${error.id}`} className="flex flex-col gap-2">
          <div className="flex items-baseline justify-between gap-3 text-12 text-ink-3">
            <span className="font-medium text-ink">Attempt {error.attempt}</span>
            <Time at={error.created_at} />
          </div>
          {job.redacted ? (
            <Unseen className="" />
          ) : (
            <CodeBlock
              code={error.backtrace ? `${error.error}\n\n${error.backtrace}` : error.error}
              label={`Error in attempt ${error.attempt}`}
              wrap
            />
          )}
        </li>
      ))}
    </ol>
  );
}

const idLink =
  "inline-flex min-h-6 items-center font-mono text-12 wrap-anywhere text-accent-text underline-offset-2 hover:underline";

function chainStepWord(step: number | undefined): string {
  if (step === -1) return "exit handler";
  if (step === -2) return "failure handler";
  return `step ${(step ?? 0) + 1}`;
}

const priorities = ["critical", "high", "normal"];

function facts(scope: Scope, job: Job): { label: string; value: ReactNode }[] {
  const list: { label: string; value: ReactNode }[] = [
    {
      label: "Queue",
      value: (
        <Link
          to="/$tenant/$namespace/jobs"
          params={scope}
          search={{ queue: job.queue }}
          className="font-medium text-accent-text underline-offset-2 hover:underline"
        >
          {job.queue}
        </Link>
      ),
    },
    { label: "Attempt", value: <span className="nums">{`${job.attempt} of ${job.max_retries}`}</span> },
    { label: "Priority", value: priorities[job.priority] ?? String(job.priority) },
    { label: "Created", value: <Time at={job.created_at} format="local" /> },
  ];
  const add = (label: string, value: ReactNode) => list.push({ label, value });
  if (job.scheduled_at)
    add(
      job.state === "retrying" ? "Next attempt" : "Scheduled for",
      <Time at={job.scheduled_at} format="local" />,
    );
  if (job.started_at) add("Started", <Time at={job.started_at} format="local" />);
  if (job.completed_at) add("Completed", <Time at={job.completed_at} format="local" />);
  if (job.failed_at) add("Last failed", <Time at={job.failed_at} format="local" />);
  if (job.retained_until) add("Deleted", <Time at={job.retained_until} />);
  if (job.worker_id) add("Worker", job.hostname ? `${job.worker_id} on ${job.hostname}` : job.worker_id);
  if (job.schedule_id)
    add(
      "Schedule",
      <Link
        to="/$tenant/$namespace/schedules/$schedule"
        params={{ ...scope, schedule: job.schedule_id }}
        className={idLink}
      >
        {job.schedule_id}
      </Link>,
    );
  if (job.batch_id)
    add(
      "Batch",
      <Link
        to="/$tenant/$namespace/batches/$batch"
        params={{ ...scope, batch: job.batch_id }}
        className={idLink}
      >
        {job.batch_id}
      </Link>,
    );
  if (job.chain_id)
    add(
      "Chain",
      <>
        <Link
          to="/$tenant/$namespace/chains/$chain"
          params={{ ...scope, chain: job.chain_id }}
          className={idLink}
        >
          {job.chain_id}
        </Link>
        <span className="text-ink-3">, {chainStepWord(job.chain_step)}</span>
      </>,
    );
  // A step of a chain and a callback have a parent too; only an agent job repeats it.
  if (job.parent_id && job.agent && !job.chain_id)
    add(
      "Replay of",
      <Link to="/$tenant/$namespace/jobs/$job" params={{ ...scope, job: job.parent_id }} className={idLink}>
        {job.parent_id}
      </Link>,
    );
  if (job.hold?.decision)
    add(
      job.hold.decision === "approved" ? "Approved" : "Rejected",
      <>
        {job.hold.decided_by ? (
          <>
            by <Who id={job.hold.decided_by} />
          </>
        ) : (
          "automatically, when the hold expired"
        )}
        {job.hold.comment ? `: ${job.hold.comment}` : ""}
      </>,
    );
  else if (job.hold)
    add(
      "Held by",
      job.hold.by ? <Who id={job.hold.by} /> : job.hold.policy ? "an approval policy" : "a budget",
    );
  if (job.usage)
    add(
      "Usage",
      <span className="nums">
        {dollars(job.usage.cost_usd)}
        <span className="text-ink-3">
          , {compact(job.usage.input_tokens)} tokens in, {compact(job.usage.output_tokens)} out
        </span>
      </span>,
    );
  if (job.agent)
    add(
      "Iteration",
      <span className="nums">
        {job.agent.max_iterations
          ? `${count(job.agent.iteration)} of ${count(job.agent.max_iterations)}`
          : count(job.agent.iteration)}
      </span>,
    );
  if (job.crashes) add("Worker crashes", <span className="nums">{job.crashes}</span>);
  if (job.unique_key) add("Unique key", <code className="font-mono text-12">{job.unique_key}</code>);
  if (job.expire_at) add("Expires", <Time at={job.expire_at} format="local" />);
  add(
    "Retries",
    job.retry_backoff === "none"
      ? "no delay"
      : `${job.retry_backoff}, ${duration(job.retry_base_delay_ms, 1)} to ${duration(job.retry_max_delay_ms, 1)}`,
  );
  const tags = Object.entries(job.tags ?? {});
  if (tags.length > 0) {
    add(
      "Tags",
      <span className="flex flex-wrap gap-1">
        {tags.map(([key, value]) => (
          <Link
            key={key}
            to="/$tenant/$namespace/jobs"
            params={scope}
            search={{ tag: `${key}:${value}` }}
            className="inline-flex min-h-6 items-center rounded-sm bg-muted-soft px-1.5 text-12 wrap-anywhere text-ink-2 hover:bg-accent-soft hover:text-accent-text"
          >
            {key}:{value}
          </Link>
        ))}
      </span>,
    );
  }
  return list;
}
