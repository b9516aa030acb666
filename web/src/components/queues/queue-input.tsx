import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Input, type InputProps } from "~/components/ui/field";
import { reads } from "~/data/queries";
import type { Scope } from "~/data/token";
import { queueNameProblem } from "~/lib/names";

interface QueueInputProps extends InputProps {
  scope: Scope;
  /** A queue that cannot be chosen. */
  except?: string;
}

/** A queue's name to type, with existing queues to choose from. */
export function QueueInput({ scope, except, ...input }: QueueInputProps) {
  const queues = useQuery(reads.queues(scope));
  const list = useId();
  return (
    <>
      <Input list={list} {...input} />
      <datalist id={list}>
        {queues.data?.map(({ name }) => (name === except ? null : <option key={name} value={name} />))}
      </datalist>
    </>
  );
}

/** What to say of the queue that jobs would be moved to; already is said of the one they are in. */
export function useTarget(scope: Scope, name: string, from: string, already: string) {
  const queues = useQuery(reads.queues(scope));
  const problem = queueNameProblem(name) ?? undefined;
  const made = name !== "" && !problem && queues.data?.every((queue) => queue.name !== name);
  return {
    problem,
    blocked: name === "" ? "Enter a queue." : (problem ?? (name === from ? already : undefined)),
    hint: made ? `This creates the queue ${name}.` : undefined,
  };
}
