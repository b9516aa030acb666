import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { QueueInput, useTarget } from "~/components/queues/queue-input";
import { FormDialog } from "~/components/ui/dialog";
import { Field } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { JobName } from "~/components/work/parts";
import { describeError } from "~/data/control";
import { pageApi } from "~/data/page-api";
import type { Scope } from "~/data/token";

interface MoveDialogProps {
  scope: Scope;
  job: { id: string; queue: string };
  onClose: () => void;
}

/** Puts a job into another queue. */
export default function MoveDialog({ scope, job, onClose }: MoveDialogProps) {
  const client = useQueryClient();
  const [to, setTo] = useState("");
  const name = to.trim();
  const { problem, blocked, hint } = useTarget(scope, name, job.queue, "The job is already in this queue.");
  const refresh = () => client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });

  async function back() {
    try {
      await pageApi.move(scope, job.id, job.queue);
      toast({ title: `Moved back to ${job.queue}`, description: job.id });
    } catch (error) {
      toast({ kind: "error", title: "Couldn't move the job back", description: describeError(error) });
    }
    await refresh();
  }

  const move = useMutation({
    mutationFn: () => pageApi.move(scope, job.id, name),
    onSuccess: async () => {
      toast({
        title: `Moved to ${name}`,
        description: job.id,
        action: { label: "Undo", onClick: () => void back() },
      });
      await refresh();
      onClose();
    },
  });

  return (
    <FormDialog
      onClose={onClose}
      title="Move this job?"
      description={
        <>
          <JobName id={job.id} /> keeps its state, schedule and priority, and goes to the end of the queue.
        </>
      }
      submit="Move job"
      onSubmit={() => move.mutate()}
      busy={move.isPending}
      blockedBecause={blocked}
      failure={move.error ? describeError(move.error) : undefined}
    >
      <Field label="Queue" error={problem} hint={hint ?? `Currently in ${job.queue}.`}>
        <QueueInput
          autoFocus
          scope={scope}
          except={job.queue}
          placeholder="emails.send"
          value={to}
          onChange={setTo}
        />
      </Field>
    </FormDialog>
  );
}
