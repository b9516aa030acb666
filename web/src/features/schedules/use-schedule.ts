import { useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { pageApi, type Schedule } from "~/data/page-api";
import type { Scope } from "~/data/token";

/** What is done to a schedule at once, without a dialog. */
export function useSchedule(scope: Scope) {
  const client = useQueryClient();
  const changed = () =>
    client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "schedules"] });
  const setPaused = useMutation({
    mutationFn: ({ schedule, paused }: { schedule: Schedule; paused: boolean }) =>
      pageApi.pauseSchedule(scope, schedule.id, paused),
    onSuccess: (_, { schedule, paused }) => {
      toast({
        title: paused ? `Paused ${schedule.name}` : `Resumed ${schedule.name}`,
        description: paused
          ? "It won't enqueue jobs until you resume it."
          : "It runs at its next scheduled time.",
        action: { label: "Undo", onClick: () => setPaused.mutate({ schedule, paused: !paused }) },
      });
      return changed();
    },
    onError: (error, { schedule }) =>
      toast({ kind: "error", title: `Couldn't update ${schedule.name}`, description: describeError(error) }),
  });
  const run = useMutation({
    mutationFn: (schedule: Schedule) => pageApi.runSchedule(scope, schedule.id),
    onSuccess: ({ job_id }, schedule) => {
      toast({ title: `Enqueued a job from ${schedule.name}`, description: job_id });
      return changed();
    },
    onError: (error, schedule) =>
      toast({ kind: "error", title: `Couldn't run ${schedule.name}`, description: describeError(error) }),
  });
  async function remove(schedule: Schedule) {
    await pageApi.deleteSchedule(scope, schedule.id);
    toast({ title: `Deleted ${schedule.name}` });
    await changed();
  }
  return { setPaused, run, remove };
}
