import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useRouteContext } from "@tanstack/react-router";
import { CalendarClock, Pause, Pencil, Play, Plus, Zap } from "lucide-react";
import { Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button, IconButton } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { More } from "~/components/work/parts";
import type { Schedule } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { OpenedSchedule } from "~/features/schedules/opened";
import { ScheduleState } from "~/features/schedules/parts";
import { useSchedule } from "~/features/schedules/use-schedule";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { cronWords } from "~/lib/cron-words";
import { firstSchedule, schedulesEquivalents } from "~/lib/page-equivalents";
import { useRowKeys } from "~/lib/row-keys";

const route = getRouteApi("/$tenant/$namespace/schedules");

/** Cron schedules of a namespace. */
export function SchedulesPage() {
  const scope = route.useParams();
  const { access } = useRouteContext({ from: "/$tenant" });
  const schedules = useInfiniteQuery(pageReads.schedules(scope));
  const rows = schedules.data?.pages.flatMap((page) => page.rows);
  const { setPaused, run } = useSchedule(scope);
  const [open, setOpen] = useState<{ schedule?: string } | null>(null);
  const blocked = access.blocked(Permission.JOB_OPERATE);
  const list = useRowKeys<HTMLDivElement>({});
  useCopyAs(schedulesEquivalents());
  // A tick is a job that nobody enqueued by hand; which one is not told.
  useRefresh(
    pageReads.schedules(scope).queryKey,
    (event) => event.type === "enqueued" || event.type === "scheduled",
  );

  const columns: Column<Schedule>[] = [
    {
      id: "name",
      header: "Schedule",
      phone: "title",
      sort: (schedule) => schedule.name,
      cell: (schedule) => (
        <span className="flex min-w-0 flex-col">
          <Link
            to="/$tenant/$namespace/schedules/$schedule"
            params={{ ...scope, schedule: schedule.id }}
            data-row={schedule.id}
            className="inline-flex min-h-6 items-center font-medium wrap-anywhere underline-offset-2 hover:underline"
          >
            {schedule.name}
          </Link>
          <span className="text-12 wrap-anywhere text-ink-3">into {schedule.queue}</span>
        </span>
      ),
    },
    {
      id: "state",
      header: "State",
      phone: "corner",
      cell: (schedule) => <ScheduleState schedule={schedule} />,
    },
    {
      id: "cron",
      header: "When",
      phone: "block",
      cell: (schedule) => (
        <span className="flex min-w-0 flex-col">
          <span>{cronWords(schedule.cron) ?? schedule.cron}</span>
          <span className="font-mono text-12 text-ink-3">
            {schedule.cron} · {schedule.timezone}
          </span>
        </span>
      ),
    },
    {
      id: "next",
      header: "Next",
      align: "right",
      width: "w-28",
      sort: (schedule) => (schedule.next_run_at ? Date.parse(schedule.next_run_at) : Number.MAX_SAFE_INTEGER),
      cell: (schedule) =>
        schedule.next_run_at && !schedule.paused ? (
          <Time at={schedule.next_run_at} />
        ) : (
          <span className="text-ink-3">–</span>
        ),
    },
    {
      id: "last",
      header: "Last",
      align: "right",
      width: "w-28",
      cell: (schedule) =>
        schedule.last_run_at ? (
          <Time at={schedule.last_run_at} className="text-ink-2" />
        ) : (
          <span className="text-ink-3">never</span>
        ),
    },
    {
      id: "actions",
      header: "Actions",
      hideHeader: true,
      align: "right",
      width: "w-28",
      cell: (schedule) => (
        <span className="inline-flex gap-1">
          <IconButton
            size="sm"
            label={`Run ${schedule.name} now`}
            blockedBecause={blocked}
            busy={run.isPending && run.variables.id === schedule.id}
            onClick={() => run.mutate(schedule)}
          >
            <Zap aria-hidden />
          </IconButton>
          <IconButton
            size="sm"
            label={schedule.paused ? `Resume ${schedule.name}` : `Pause ${schedule.name}`}
            blockedBecause={blocked}
            onClick={() => setPaused.mutate({ schedule, paused: !schedule.paused })}
          >
            {schedule.paused ? <Play aria-hidden /> : <Pause aria-hidden />}
          </IconButton>
          <IconButton
            size="sm"
            label={`Edit ${schedule.name}`}
            blockedBecause={blocked}
            onClick={() => setOpen({ schedule: schedule.id })}
          >
            <Pencil aria-hidden />
          </IconButton>
        </span>
      ),
    },
  ];

  const create = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => setOpen({})}
    >
      New schedule
    </Button>
  );
  return (
    <Page description="Enqueue jobs on a cron schedule." actions={create}>
      {schedules.error && !rows ? (
        <Problem error={schedules.error} onRetry={() => void schedules.refetch()} />
      ) : (
        <div ref={list} className="flex flex-col gap-3">
          <Card flush>
            <Table
              label="Schedules"
              columns={columns}
              rows={rows}
              rowKey={(schedule) => schedule.id}
              paged
              initialSort={{ column: "name", descending: false }}
              empty={
                <EmptyState
                  icon={<CalendarClock aria-hidden />}
                  title="No schedules yet"
                  action={create}
                  snippet={<CodeBlock language="shell" label="Create a schedule" code={firstSchedule} />}
                >
                  A schedule enqueues a job every night, every 5 minutes, or at 9:00 in Berlin on the first of
                  each month.
                </EmptyState>
              }
            />
          </Card>
          <More list={schedules} />
        </div>
      )}
      <Suspense>
        {open ? <OpenedSchedule scope={scope} id={open.schedule} onClose={() => setOpen(null)} /> : null}
      </Suspense>
    </Page>
  );
}
