import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
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
    explain:
      "The job waits until someone approves or rejects it. If it's active, its worker is asked to stop first.",
  },
  approve: {
    title: "Approve this job?",
    button: "Approve",
    field: "Comment",
    hint: "Saved with the job.",
    done: "Approved",
    explain: "The job returns to its queue and runs.",
  },
  reject: {
    title: "Reject this job?",
    button: "Reject",
    field: "Comment",
    hint: "Saved with the job.",
    done: "Rejected",
    explain: "The job becomes dead and won't run. You can retry it later.",
  },
} as const;

interface DecideDialogProps {
  scope: Scope;
  job: { id: string; queue: string };
  verb: Verb;
  onClose: () => void;
  onDone?: () => void;
}

/** Holds a job, or decides about one that is held, with a word to the others. */
export default function DecideDialog({ scope, job, verb, onClose, onDone }: DecideDialogProps) {
  const client = useQueryClient();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const word = words[verb];

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setFailure(undefined);
    try {
      const why = text.trim();
      const { status } = await (verb === "hold"
        ? pageApi.hold(scope, job.id, why)
        : pageApi.decide(scope, job.id, verb, why));
      toast({
        title: status === "cancelling" ? "Asked the worker to stop" : word.done,
        description: `${job.id} of ${job.queue}`,
      });
      onDone?.();
      onClose();
      await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
    } catch (error) {
      setFailure(describeError(error));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={word.title}
      description={word.explain}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="decide" variant={verb === "reject" ? "danger" : "primary"} busy={busy}>
            {word.button}
          </Button>
        </>
      }
    >
      <form id="decide" onSubmit={submit} className="flex flex-col gap-4">
        {failure ? <Banner tone="danger" title={failure} /> : null}
        <Field label={word.field} note="optional" hint={word.hint}>
          <Input
            autoComplete="off"
            maxLength={1024}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </Field>
      </form>
    </Dialog>
  );
}
