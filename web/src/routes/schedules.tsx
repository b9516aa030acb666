import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { CalendarClock, Pause, Pencil, Play, Plus, Zap } from "lucide-react";
import { Suspense, useState } from "react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { actionsColumn, type Column } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { PagedTable } from "~/components/work/paged-table";
import type { Schedule } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { useRights } from "~/data/rights";
import { OpenedSchedule } from "~/features/schedules/opened";
import { ScheduleState } from "~/features/schedules/parts";
import { useSchedule } from "~/features/schedules/use-schedule";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { cronWords } from "~/lib/cron-words";
import { firstSchedule, schedulesEquivalents } from "~/lib/page-equivalents";
import { editBlocked } from "~/lib/schedule-verbs";

const route = getRouteApi("/$tenant/$namespace/schedules");

/** Cron schedules of a namespace. */
export function SchedulesPage() {
  const scope = route.useParams();
  const rights = useRights(scope);
  const schedules = useInfiniteQuery(pageReads.schedules(scope));
  const { setPaused, run } = useSchedule(scope);
  const [open, setOpen] = useState<{ schedule?: string } | null>(null);
  const blocked = rights.blocked(Permission.SCHEDULE_UPDATE);
  useCopyAs(schedulesEquivalents());
  // A tick is a job that nobody enqueued by hand; which one is not told.
  useRefresh(
    pageReads.schedules(scope).queryKey,
    (event) => event.type === "enqueued" || event.type === "scheduled",
  );

  const off = ({ queue }: Schedule) => ({
    blockedBecause: rights.blocked(Permission.SCHEDULE_UPDATE, queue),
  });
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
      cell: (schedule) => <Time at={schedule.paused ? undefined : schedule.next_run_at} none="–" />,
    },
    {
      id: "last",
      header: "Last",
      align: "right",
      width: "w-28",
      cell: (schedule) => <Time at={schedule.last_run_at} none="never" className="text-ink-2" />,
    },
    actionsColumn({ width: "w-28" }, (schedule) => [
      {
        ...off(schedule),
        label: `Run ${schedule.name} now`,
        icon: <Zap aria-hidden />,
        busy: run.isPending && run.variables.id === schedule.id,
        onClick: () => run.mutate(schedule),
      },
      {
        ...off(schedule),
        label: schedule.paused ? `Resume ${schedule.name}` : `Pause ${schedule.name}`,
        icon: schedule.paused ? <Play aria-hidden /> : <Pause aria-hidden />,
        onClick: () => setPaused.mutate({ schedule, paused: !schedule.paused }),
      },
      {
        blockedBecause: off(schedule).blockedBecause ?? editBlocked(schedule),
        label: `Edit ${schedule.name}`,
        icon: <Pencil aria-hidden />,
        onClick: () => setOpen({ schedule: schedule.id }),
      },
    ]),
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
      <PagedTable
        list={schedules}
        label="Schedules"
        columns={columns}
        rowKey={(schedule) => schedule.id}
        initialSort={{ column: "name", descending: false }}
        empty={
          <EmptyState
            icon={<CalendarClock aria-hidden />}
            title="No schedules yet"
            action={create}
            snippet={<CodeBlock language="shell" label="Create a schedule" code={firstSchedule} />}
          >
            A schedule enqueues a job every night, every 5 minutes, or at 9:00 in Berlin on the first of each
            month.
          </EmptyState>
        }
      />
      <Suspense>
        {open ? <OpenedSchedule scope={scope} id={open.schedule} onClose={() => setOpen(null)} /> : null}
      </Suspense>
    </Page>
  );
}
