import { useQuery } from "@tanstack/react-query";
import { lazy } from "react";
import { pageReads } from "~/data/page-queries";
import type { Scope } from "~/data/token";
import { editBlocked } from "~/lib/schedule-verbs";
import { Preview } from "./preview";

const ScheduleDialog = lazy(() => import("./schedule-dialog"));

/** The dialog of one schedule, once its payload has been read; of a new one at once. */
export function OpenedSchedule({
  scope,
  id,
  onClose,
}: {
  scope: Scope;
  id: string | undefined;
  onClose: () => void;
}) {
  const schedule = useQuery({ ...pageReads.schedule(scope, id ?? ""), enabled: id !== undefined });
  if (id !== undefined && !schedule.data) return null;
  return (
    <ScheduleDialog
      scope={scope}
      schedule={schedule.data}
      blockedBecause={editBlocked(schedule.data)}
      preview={(cron, timezone) => <Preview scope={scope} cron={cron} timezone={timezone} />}
      onClose={onClose}
    />
  );
}
