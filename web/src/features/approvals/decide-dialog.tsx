import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { JobName } from "~/components/work/parts";
import { describeError } from "~/data/control";
import { pageApi } from "~/data/page-api";
import type { Scope } from "~/data/token";

export type Verb = "hold" | "approve" | "reject";

const words = {
  hold: {
    title: "Hold this job?",
    button: "Hold",
    field: "Reason",
    hint: "Shown to the approver.",
    done: "Job held",
    explain: "waits until someone approves or rejects it. If it's active, its worker is asked to stop first.",
  },
  approve: {
    title: "Approve this job?",
    button: "Approve",
    field: "Comment",
    hint: "Saved with the job.",
    done: "Approved",
    explain: "returns to its queue and runs.",
  },
  reject: {
    title: "Reject this job?",
    button: "Reject",
    field: "Comment",
    hint: "Saved with the job.",
    done: "Rejected",
    explain: "becomes dead and won't run. You can retry it later.",
  },
} as const;

interface DecideDialogProps {
  scope: Scope;
  job: { id: string; queue: string };
  verb: Verb;
  onClose: () => void;
  onDone?: () => void;
}

/** Holds a job, or approves or rejects a held one, with a comment. */
export default function DecideDialog({ scope, job, verb, onClose, onDone }: DecideDialogProps) {
  const client = useQueryClient();
  const [text, setText] = useState("");
  const word = words[verb];

  const decide = useMutation({
    mutationFn: (why: string) =>
      verb === "hold" ? pageApi.hold(scope, job.id, why) : pageApi.decide(scope, job.id, verb, why),
    onSuccess: ({ status }) => {
      toast({
        title: status === "cancelling" ? "Asked the worker to stop" : word.done,
        description: `${job.id} of ${job.queue}`,
      });
      onDone?.();
      onClose();
      return client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
    },
  });

  return (
    <FormDialog
      onClose={onClose}
      title={word.title}
      description={
        <>
          <JobName id={job.id} /> {word.explain}
        </>
      }
      submit={word.button}
      onSubmit={() => decide.mutate(text.trim())}
      busy={decide.isPending}
      variant={verb === "reject" ? "danger" : "primary"}
      failure={decide.error ? describeError(decide.error) : undefined}
    >
      <Field label={word.field} note="optional" hint={word.hint}>
        <Input maxLength={1024} value={text} onChange={setText} />
      </Field>
    </FormDialog>
  );
}
