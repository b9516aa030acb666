import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { pageApi } from "~/data/page-api";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { queueNameProblem } from "~/lib/names";

interface MoveDialogProps {
  scope: Scope;
  job: { id: string; queue: string };
  onClose: () => void;
}

/** Puts a job into another queue. */
export default function MoveDialog({ scope, job, onClose }: MoveDialogProps) {
  const client = useQueryClient();
  const queues = useQuery(reads.queues(scope));
  const listId = useId();
  const [to, setTo] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const name = to.trim();
  const problem = queueNameProblem(name);
  const here = job.queue === name;
  const known = queues.data?.some((queue) => queue.name === name) ?? true;

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

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (busy || name === "" || problem || here) return;
    setBusy(true);
    setFailure(undefined);
    try {
      await pageApi.move(scope, job.id, name);
      toast({
        title: `Moved to ${name}`,
        description: job.id,
        action: { label: "Undo", onClick: () => void back() },
      });
      await refresh();
      onClose();
    } catch (error) {
      setFailure(describeError(error));
      setBusy(false);
    }
  }

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Move this job?"
      description="It keeps its state, schedule and priority, and goes to the end of the queue."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            form="move"
            variant="primary"
            busy={busy}
            blockedBecause={
              name === ""
                ? "Enter a queue."
                : (problem ?? (here ? "The job is already in this queue." : undefined))
            }
          >
            Move job
          </Button>
        </>
      }
    >
      <form id="move" onSubmit={submit} className="flex flex-col gap-4">
        {failure ? <Banner tone="danger" title={failure} /> : null}
        <Field
          label="Queue"
          error={problem ?? undefined}
          hint={
            name !== "" && !problem && !known
              ? `This creates the queue ${name}.`
              : `Currently in ${job.queue}.`
          }
        >
          <Input
            autoFocus
            autoComplete="off"
            placeholder="emails.send"
            list={listId}
            value={to}
            onChange={(event) => setTo(event.target.value)}
          />
        </Field>
        <datalist id={listId}>
          {queues.data?.map((queue) =>
            queue.name === job.queue ? null : <option key={queue.name} value={queue.name} />,
          )}
        </datalist>
      </form>
    </Dialog>
  );
}
