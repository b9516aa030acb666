import { useQuery } from "@tanstack/react-query";
import { Choice } from "~/components/ui/choice";
import { Combobox } from "~/components/ui/combobox";
import { Field, Input } from "~/components/ui/field";
import { principalReads } from "~/data/principal-queries";
import { reads } from "~/data/queries";
import type { ReviewedPrincipal } from "~/gen/corvo/cloud/v1/review_pb";
import type { AccessQuestion } from "~/lib/access-equivalents";
import { typeNames } from "./words";

interface QuestionProps {
  tenant: string;
  principals: readonly ReviewedPrincipal[] | undefined;
  question: AccessQuestion;
  onChange: (part: AccessQuestion) => void;
  /** Asks for a permission too. */
  what?: boolean;
  /** What stands for nobody in particular. */
  anybody: string;
}

/** Who, what and where: the fields of a question about access. */
export function Question({ tenant, principals, question, onChange, what, anybody }: QuestionProps) {
  const permissions = useQuery(principalReads.permissions());
  const namespaces = useQuery(reads.namespaces(tenant));
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2 lg:grid-cols-4">
      <Field label="Who">
        <Combobox
          options={(principals ?? []).map((row) => ({
            value: row.principalId,
            label: row.principal,
            description: typeNames[row.type] ?? row.type,
          }))}
          value={question.who ?? null}
          onChange={(who) => onChange({ who: who ?? undefined })}
          placeholder={anybody}
        />
      </Field>
      {what ? (
        <Field label="Permission">
          <Combobox
            options={(permissions.data ?? []).map(({ name, about }) => ({
              value: name,
              label: name,
              description: about,
            }))}
            value={question.what ?? null}
            onChange={(next) => onChange({ what: next ?? undefined })}
            placeholder="job.retry"
          />
        </Field>
      ) : null}
      <Field label="Namespace">
        <Choice
          options={[
            { value: "", label: "The whole tenant" },
            ...(namespaces.data ?? []).map(({ name }) => ({ value: name, label: name })),
          ]}
          value={question.namespace ?? ""}
          onChange={(namespace) => onChange({ namespace: namespace || undefined })}
        />
      </Field>
      <Field label="Queue" note="optional">
        <Input
          mono
          placeholder="emails.send"
          value={question.queue ?? ""}
          onChange={(queue) => onChange({ queue: queue.trim() || undefined })}
        />
      </Field>
    </div>
  );
}
