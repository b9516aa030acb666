import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { QueueInput } from "~/components/queues/queue-input";
import { Choice } from "~/components/ui/choice";
import { FormDialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { toast } from "~/components/ui/toast";
import { fieldErrors, otherError } from "~/data/control";
import { type PolicySettings, pageApi } from "~/data/page-api";
import type { Scope } from "~/data/token";

const modes = [
  { value: "all", label: "All conditions match" },
  { value: "any", label: "Any condition matches" },
] as const;

const expiries = [
  { value: "reject", label: "reject it" },
  { value: "approve", label: "approve it" },
] as const;

/** Makes an approval policy. */
export default function PolicyDialog({ scope, onClose }: { scope: Scope; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [queue, setQueue] = useState("");
  const [tag, setTag] = useState("");
  const [mode, setMode] = useState<"any" | "all">("all");
  const [approvers, setApprovers] = useState("");
  const [expires, setExpires] = useState("");
  const [onExpiry, setOnExpiry] = useState<"approve" | "reject">("reject");
  const [tried, setTried] = useState(false);
  const at = tag.indexOf(":");
  const own = {
    name: name.trim() ? undefined : "Enter a name.",
    queue: queue.trim() || tag.trim() ? undefined : "Enter a queue or a tag.",
    tag:
      tag.trim() && (at <= 0 || at === tag.length - 1)
        ? "Use key:value, for example customer:acme."
        : undefined,
  };

  const save = useMutation({
    mutationFn: () => {
      const policy: PolicySettings = {
        name: name.trim(),
        mode,
        enabled: true,
        ...(queue.trim() ? { queue: queue.trim() } : {}),
        ...(tag.trim() ? { tag_key: tag.slice(0, at).trim(), tag_value: tag.slice(at + 1).trim() } : {}),
        ...(approvers.trim() ? { approvers: approvers.split(",").map((entry) => entry.trim()) } : {}),
        ...(expires.trim() ? { expires_after: expires.trim(), on_expire: onExpiry } : {}),
      };
      return pageApi.putPolicy(scope, policy);
    },
    onSuccess: async () => {
      toast({
        title: `Created ${name.trim()}`,
        description: "It applies to jobs enqueued from now on.",
      });
      await client.invalidateQueries({ queryKey: ["data", scope.tenant, scope.namespace, "policies"] });
      onClose();
    },
  });
  const refused = fieldErrors(save.error);
  const problem = (field: keyof typeof own) => (tried ? own[field] : undefined) ?? refused[field];

  function submit() {
    setTried(true);
    if (!own.name && !own.queue && !own.tag) save.mutate();
  }

  return (
    <FormDialog
      onClose={onClose}
      size="md"
      title="New approval policy"
      description="Matching jobs are held until someone approves them."
      submit="Create"
      onSubmit={submit}
      busy={save.isPending}
      failure={otherError(save.error)}
      formClass="grid items-start gap-4 sm:grid-cols-2"
    >
      <Field label="Name" className="sm:col-span-2" error={problem("name")}>
        <Input autoFocus placeholder="large-refunds" value={name} onChange={setName} />
      </Field>
      <Field label="Queue" note="optional" error={problem("queue")}>
        <QueueInput scope={scope} placeholder="refunds" value={queue} onChange={setQueue} />
      </Field>
      <Field label="Tag" note="optional" error={problem("tag") ?? refused.tag_key ?? refused.tag_value}>
        <Input placeholder="size:large" value={tag} onChange={setTag} />
      </Field>
      {queue.trim() && tag.trim() ? (
        <Field label="It matches when" className="sm:col-span-2">
          <Choice options={modes} value={mode} onChange={setMode} />
        </Field>
      ) : null}
      <Field
        label="Approvers"
        note="optional"
        className="sm:col-span-2"
        hint="IDs of users or keys, separated by commas. Leave empty to allow anyone who can manage jobs."
        error={refused.approvers}
      >
        <Input value={approvers} onChange={setApprovers} />
      </Field>
      <Field
        label="Time limit"
        note="optional"
        hint="For example, 24h. Leave empty for no limit."
        error={refused.expires_after}
      >
        <Input value={expires} onChange={setExpires} />
      </Field>
      {expires.trim() ? (
        <Field label="When time runs out" error={refused.on_expire}>
          <Choice options={expiries} value={onExpiry} onChange={setOnExpiry} />
        </Field>
      ) : null}
    </FormDialog>
  );
}
