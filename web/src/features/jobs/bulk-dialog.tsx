import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { QueueInput, useTarget } from "~/components/queues/queue-input";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog, FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { ProgressBar } from "~/components/ui/progress";
import { toast } from "~/components/ui/toast";
import { type BulkAction, type BulkOperation, followBulk, startBulk } from "~/data/bulk";
import { describeError } from "~/data/control";
import type { JobFilter } from "~/data/jobs-api";
import type { Scope } from "~/data/token";
import { count, plural } from "~/lib/numbers";

// From here on a deletion asks for the queue's name: few jobs are looked through before, many are not.
const TYPED_FROM = 100;

export type BulkVerb = BulkAction["action"];

interface BulkDialogProps {
  scope: Scope;
  verb: BulkVerb;
  /** The jobs it applies to: all that match then, not only those on the page. */
  filter: JobFilter;
  /** The jobs' own words, and their queue. */
  about: { text: string; queue: string };
  /** How many there are; unset if that is not known. */
  jobs: number | undefined;
  onClose: () => void;
  onDone: () => void;
}

const words = {
  retry: {
    ask: "Retry",
    label: "Retry jobs",
    done: "Retried",
    what: "Each job starts over at its first attempt. Jobs that keep failing become dead again.",
  },
  delete: {
    ask: "Delete",
    label: "Delete jobs",
    done: "Deleted",
    what: "This deletes their payloads and errors, and can't be undone.",
  },
  move: {
    ask: "Move",
    label: "Move jobs",
    done: "Moved",
    what: "The jobs stay dead, with their errors. You can retry them in the other queue.",
  },
} as const;

/** Asks before one action on all jobs of a filter, and shows how far it is. */
export default function BulkDialog({ scope, verb, filter, about, jobs, onClose, onDone }: BulkDialogProps) {
  const client = useQueryClient();
  const [value, setValue] = useState("");
  const [running, setRunning] = useState<BulkOperation | "starting">();
  const [failure, setFailure] = useState<string>();
  const [skipped, setSkipped] = useState<BulkOperation>();
  // After the dialog is closed, or its page is left, a toast reports the result.
  const closed = useRef(false);
  useEffect(() => {
    closed.current = false;
    return () => {
      closed.current = true;
    };
  }, []);

  const word = words[verb];
  const mustType = verb === "delete" && (jobs === undefined || jobs >= TYPED_FROM);
  const name = value.trim();
  const target = useTarget(scope, name, about.queue, "The jobs are already in this queue.");
  const blocked =
    verb === "move"
      ? target.blocked
      : mustType && name !== about.queue
        ? `Type ${about.queue} first.`
        : undefined;

  async function run() {
    setRunning("starting");
    setFailure(undefined);
    try {
      const id = await startBulk(
        scope,
        filter,
        verb === "move" ? { action: verb, move_to_queue: name } : { action: verb },
      );
      ended(await followBulk(scope, id, setRunning));
    } catch (error) {
      const why = describeError(error);
      if (closed.current) toast({ kind: "error", title: `Couldn't ${verb} all jobs`, description: why });
      setFailure(why);
    }
    setRunning(undefined);
    await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace] });
  }

  function ended(operation: BulkOperation) {
    const { affected, errors, refused } = operation;
    const left = errors > 0 ? `${plural(errors, "job")} skipped. ${refused?.[0]?.error ?? ""}` : undefined;
    toast({
      title: `${word.done} ${plural(affected, "job")}${verb === "move" ? ` to ${name}` : ""}`,
      ...(left && closed.current ? { description: left } : {}),
    });
    if (errors > 0 && !closed.current) setSkipped(operation);
    else if (!closed.current) {
      onDone();
      onClose();
    }
  }

  function close() {
    closed.current = true;
    if (skipped) onDone();
    onClose();
  }

  if (skipped)
    return (
      <Dialog
        open
        onOpenChange={close}
        title={`${word.done} ${plural(skipped.affected, "job")}`}
        footer={<Button onClick={close}>Close</Button>}
      >
        <Banner tone="warn" title={`${plural(skipped.errors, "job")} skipped`}>
          {skipped.refused?.slice(0, 3).map((entry) => (
            <p key={entry.job_id}>
              <span className="font-mono text-12">{entry.job_id}</span>: {entry.error}
            </p>
          ))}
        </Banner>
      </Dialog>
    );

  if (running)
    return (
      <Dialog
        open
        onOpenChange={close}
        title={`${word.ask} ${jobs === undefined ? "jobs" : plural(jobs, "job")}`}
        footer={<Button onClick={close}>Close</Button>}
      >
        <ProgressBar progress={progressOf(running)} className="py-2" />
        <p className="text-13 text-ink-2">You can close this dialog. The operation continues.</p>
      </Dialog>
    );

  return (
    <FormDialog
      onClose={close}
      title={`${word.ask} ${jobs === undefined ? "all jobs with this error" : plural(jobs, "job")}?`}
      submit={word.label}
      onSubmit={() => void run()}
      busy={false}
      blockedBecause={blocked}
      variant={verb === "delete" ? "danger" : "primary"}
      failure={failure}
    >
      <p className="text-13 text-ink-2">
        All dead jobs in <span className="font-medium text-ink">{about.queue}</span> with this error:
      </p>
      <p className="line-clamp-3 rounded-md bg-sunken px-3 py-2 font-mono text-12 wrap-anywhere text-danger-text">
        {about.text}
      </p>
      <p className="text-13 text-ink-2">{word.what}</p>
      {verb === "move" ? (
        <Field label="Queue" error={target.problem} hint={target.hint}>
          <QueueInput
            autoFocus
            scope={scope}
            except={about.queue}
            placeholder="emails.send"
            value={value}
            onChange={setValue}
          />
        </Field>
      ) : mustType ? (
        <Field
          label={
            <>
              Type <code className="rounded-sm bg-sunken px-1 font-mono text-12">{about.queue}</code> to
              confirm
            </>
          }
        >
          <Input mono value={value} onChange={setValue} />
        </Field>
      ) : null}
    </FormDialog>
  );
}

function progressOf(running: BulkOperation | "starting") {
  if (running === "starting" || running.total === 0) return { share: 0, text: "" };
  const total = Math.max(running.total, running.processed);
  return { share: running.processed / total, text: `${count(running.processed)} of ${count(total)}` };
}
