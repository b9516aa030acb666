import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { workApi } from "~/data/work-api";
import { each } from "~/lib/each";
import { queueNameProblem } from "~/lib/names";
import { plural } from "~/lib/numbers";

interface Movable {
  id: string;
  queue: string;
}

interface MoveDialogProps {
  scope: Scope;
  jobs: readonly Movable[];
  onClose: () => void;
  onDone?: () => void;
}

/** Puts jobs into another queue. */
export default function MoveDialog({ scope, jobs, onClose, onDone }: MoveDialogProps) {
  const client = useQueryClient();
  const queues = useQuery(reads.queues(scope));
  const listId = useId();
  const [left, setLeft] = useState(jobs);
  const [to, setTo] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const name = to.trim();
  const problem = queueNameProblem(name);
  const here = left.every((job) => job.queue === name);
  const known = queues.data?.some((queue) => queue.name === name) ?? true;
  const one = jobs.length === 1 ? jobs[0] : undefined;

  const refresh = () => client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });

  async function back(moved: readonly Movable[]) {
    const failed = await each(moved, (job) => workApi.move(scope, job.id, job.queue));
    if (failed.length > 0)
      toast({
        kind: "error",
        title: `${plural(failed.length, "job")} couldn't be moved back`,
        description: describeError(failed[0]?.error),
      });
    else toast({ title: moved.length === 1 ? "Moved back" : `${plural(moved.length, "job")} moved back` });
    await refresh();
  }

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (busy || name === "" || problem || here) return;
    setBusy(true);
    setFailure(undefined);
    const failed = await each(left, (job) => workApi.move(scope, job.id, name));
    const stayed = new Set(failed.map(({ item }) => item.id));
    const moved = left.filter((job) => !stayed.has(job.id));
    if (moved.length > 0)
      toast({
        title: one ? `Moved to ${name}` : `${plural(moved.length, "job")} moved to ${name}`,
        ...(one ? { description: one.id } : {}),
        action: { label: "Undo", onClick: () => void back(moved) },
      });
    setBusy(false);
    await refresh();
    if (failed.length === 0) {
      onDone?.();
      onClose();
      return;
    }
    setLeft(failed.map(({ item }) => item));
    const why = describeError(failed[0]?.error);
    setFailure(one ? why : `${plural(failed.length, "job")} of ${left.length} stayed. ${why}`);
  }

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={one ? "Move this job?" : `Move ${plural(left.length, "job")}?`}
      description={
        one
          ? "It keeps its state, schedule and priority, and goes to the end of the queue."
          : "They keep their state, schedule and priority, and go to the end of the queue."
      }
      footer={
        <>
          <Button onClick={onClose}>Leave {one ? "it" : "them"}</Button>
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
            Move
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
              : one
                ? `Currently in ${one.queue}.`
                : undefined
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
            left.every((job) => job.queue === queue.name) ? null : (
              <option key={queue.name} value={queue.name} />
            ),
          )}
        </datalist>
      </form>
    </Dialog>
  );
}
