import { useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import type { Scope } from "~/data/token";
import { type Schedule, workApi } from "~/data/work-api";

/** What is done to a schedule at once, without a dialog. */
export function useSchedule(scope: Scope) {
  const client = useQueryClient();
  const changed = () =>
    client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "schedules"] });
  const setPaused = useMutation({
    mutationFn: ({ schedule, paused }: { schedule: Schedule; paused: boolean }) =>
      workApi.pauseSchedule(scope, schedule.id, paused),
    onSuccess: (_, { schedule, paused }) => {
      toast({
        title: paused ? `${schedule.name} is paused` : `${schedule.name} is resumed`,
        description: paused ? "It makes no jobs until it is resumed." : "It runs with its next time.",
        action: { label: "Undo", onClick: () => setPaused.mutate({ schedule, paused: !paused }) },
      });
      return changed();
    },
    onError: (error, { schedule }) =>
      toast({ kind: "error", title: `${schedule.name} was not changed`, description: describeError(error) }),
  });
  const run = useMutation({
    mutationFn: (schedule: Schedule) => workApi.runSchedule(scope, schedule.id),
    onSuccess: ({ job_id }, schedule) => {
      toast({ title: `${schedule.name} made a job`, description: job_id });
      return changed();
    },
    onError: (error, schedule) =>
      toast({ kind: "error", title: `${schedule.name} made no job`, description: describeError(error) }),
  });
  async function remove(schedule: Schedule) {
    await workApi.deleteSchedule(scope, schedule.id);
    toast({ title: `${schedule.name} is deleted` });
    await changed();
  }
  return { setPaused, run, remove };
}
