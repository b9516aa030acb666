import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Pause, Pencil, Play, Trash2, Zap } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { Page } from "~/components/ui/page";
import { Time } from "~/components/ui/time";
import { Detail } from "~/components/work/detail";
import { Back, JobLink, Unseen } from "~/components/work/parts";
import type { Schedule } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { NextRuns } from "~/features/schedules/next-runs";
import { OpenedSchedule } from "~/features/schedules/opened";
import { ScheduleState } from "~/features/schedules/parts";
import { useSchedule } from "~/features/schedules/use-schedule";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { cronWords } from "~/lib/cron-words";
import { plural } from "~/lib/numbers";
import { scheduleEquivalents } from "~/lib/page-equivalents";
import { editBlocked } from "~/lib/schedule-verbs";
import { shortDuration } from "~/lib/wire-duration";

const route = getRouteApi("/$tenant/$namespace/schedules/$schedule");
const Confirm = lazy(() => import("~/components/confirm"));

/** One schedule: when it runs, the jobs it enqueues, and its past runs. */
export function SchedulePage() {
  const { schedule: id, ...scope } = route.useParams();
  const schedule = useQuery(pageReads.schedule(scope, id));
  useCopyAs(scheduleEquivalents(id));
  useRefresh(
    pageReads.schedule(scope, id).queryKey,
    (event) => event.type === "enqueued" || event.type === "scheduled",
  );
  const back = (
    <Back scope={scope} to="/$tenant/$namespace/schedules">
      Schedules
    </Back>
  );
  return (
    <Detail what="schedule" query={schedule} above={back}>
      {(loaded) => <Loaded scope={scope} schedule={loaded} back={back} />}
    </Detail>
  );
}

function Loaded({ scope, schedule, back }: { scope: Scope; schedule: Schedule; back: ReactNode }) {
  const rights = useRights(scope);
  const navigate = useNavigate();
  const { setPaused, run, remove } = useSchedule(scope);
  const [open, setOpen] = useState<"change" | "delete" | null>(null);
  const blocked = rights.blocked(Permission.SCHEDULE_UPDATE, schedule.queue);
  const { paused } = schedule;
  return (
    <Page
      title={schedule.name}
      above={back}
      actions={
        <>
          <Button
            variant="primary"
            icon={<Zap aria-hidden />}
            busy={run.isPending}
            blockedBecause={blocked}
            onClick={() => run.mutate(schedule)}
          >
            Run now
          </Button>
          <Button
            icon={paused ? <Play aria-hidden /> : <Pause aria-hidden />}
            blockedBecause={blocked}
            onClick={() => setPaused.mutate({ schedule, paused: !paused })}
          >
            {paused ? "Resume" : "Pause"}
          </Button>
          <Button
            icon={<Pencil aria-hidden />}
            blockedBecause={blocked ?? editBlocked(schedule)}
            onClick={() => setOpen("change")}
          >
            {" "}
            Edit{" "}
          </Button>
          <Button
            icon={<Trash2 aria-hidden />}
            variant="danger-ghost"
            blockedBecause={blocked}
            onClick={() => setOpen("delete")}
          >
            Delete
          </Button>
        </>
      }
    >
      <div role="status" className="-mt-2 flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <ScheduleState schedule={schedule} />
        <p className="text-13 text-ink-2">{cronWords(schedule.cron) ?? schedule.cron}</p>
      </div>
      {schedule.missed ? (
        <Banner tone="warn" title={`${plural(schedule.missed, "run")} skipped`}>
          These runs were due while Corvo couldn't enqueue jobs, or while the previous job was still running.
          The schedule is set to skip them.
        </Banner>
      ) : null}
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="flex min-w-0 flex-col gap-5">
          <Card title="Next runs" description={`In ${schedule.timezone}.`}>
            {paused ? (
              <p className="text-13 text-ink-3">None while it is paused.</p>
            ) : (
              <NextRuns runs={schedule.next_runs ?? []} timezone={schedule.timezone} />
            )}
          </Card>
          {schedule.redacted ? (
            <Card title="Job payload">
              <Unseen className="" />
            </Card>
          ) : (
            <CodeBlock title="Job payload" label="Payload" language="json" code={schedule.payload} wrap />
          )}
        </div>
        <Card title="Details">
          <Facts items={facts(scope, schedule)} />
        </Card>
      </div>
      <Suspense>
        {open === "change" ? (
          <OpenedSchedule scope={scope} id={schedule.id} onClose={() => setOpen(null)} />
        ) : null}
        {open === "delete" ? (
          <Confirm
            onClose={() => setOpen(null)}
            title={`Delete ${schedule.name}?`}
            confirmLabel="Delete schedule"
            onConfirm={async () => {
              await remove(schedule);
              await navigate({ to: "/$tenant/$namespace/schedules", params: scope });
            }}
          >
            It stops enqueuing jobs. Jobs it has already enqueued aren't affected. This can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </Page>
  );
}

const overlaps: Record<string, string> = {
  allow: "runs anyway",
  skip: "skips this run",
  cancel: "cancels the previous job",
};
const catchUps: Record<string, string> = {
  once: "runs once, for the latest",
  skip: "skips them",
  all: "runs all of them",
};

function facts(scope: Scope, schedule: Schedule): { label: string; value: ReactNode }[] {
  const list: { label: string; value: ReactNode }[] = [
    {
      label: "Queue",
      value: (
        <Link
          to="/$tenant/$namespace/jobs"
          params={scope}
          search={{ queue: schedule.queue }}
          className="font-medium text-accent-text underline-offset-2 hover:underline"
        >
          {schedule.queue}
        </Link>
      ),
    },
    { label: "Expression", value: <code className="font-mono text-12">{schedule.cron}</code> },
    { label: "Time zone", value: schedule.timezone },
  ];
  const add = (label: string, value: ReactNode) => list.push({ label, value });
  add("Last run", schedule.last_run_at ? <Time at={schedule.last_run_at} format="local" /> : "never");
  if (schedule.last_job_id) add("Last job", <JobLink scope={scope} id={schedule.last_job_id} />);
  add("If the previous job is running", overlaps[schedule.overlap ?? "allow"] ?? schedule.overlap);
  add("Missed runs", catchUps[schedule.catch_up ?? "once"] ?? schedule.catch_up);
  if (schedule.jitter && schedule.jitter !== "0s") add("Jitter", `up to ${shortDuration(schedule.jitter)}`);
  if (schedule.priority) add("Priority", schedule.priority);
  if (schedule.max_retries) add("Attempts", <span className="nums">{schedule.max_retries}</span>);
  if (schedule.expire_after) add("Expires after", shortDuration(schedule.expire_after));
  const tags = Object.entries(schedule.tags ?? {}).map(([key, value]) => `${key}:${value}`);
  if (tags.length > 0) add("Tags", tags.join(", "));
  return list;
}
