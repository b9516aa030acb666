import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleX, UserSearch } from "lucide-react";
import { placeText } from "~/components/access/place";
import { RoleBadges } from "~/components/access/role-badges";
import { Problem } from "~/components/problem";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Table } from "~/components/ui/table";
import { roleName } from "~/data/access";
import { sentence } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import type { ReviewedPrincipal } from "~/gen/corvo/cloud/v1/review_pb";
import type { AccessQuestion } from "~/lib/access-equivalents";
import { Question } from "./question";

interface ExplainProps {
  tenant: string;
  principals: readonly ReviewedPrincipal[] | undefined;
  question: AccessQuestion;
  onChange: (part: AccessQuestion) => void;
}

/** Whether somebody may do something, and why; or, of nobody in particular, who may. */
export function Explain(props: ExplainProps) {
  const { tenant, question } = props;
  const { who, what } = question;
  return (
    <div className="flex flex-col gap-4">
      <Question {...props} what anybody="Anyone" />
      {what ? (
        who ? (
          <Why tenant={tenant} question={{ ...question, who, what }} />
        ) : (
          <WhoCan tenant={tenant} question={{ ...question, what }} />
        )
      ) : (
        <EmptyState icon={<UserSearch aria-hidden />} title="Choose a permission">
          You'll see who has it there, or, if you choose somebody, whether they have it and by which roles.
        </EmptyState>
      )}
    </div>
  );
}

function Why({
  tenant,
  question,
}: {
  tenant: string;
  question: AccessQuestion & { who: string; what: string };
}) {
  const answer = useQuery(principalReads.explain(tenant, question));
  if (answer.error) return <Problem error={answer.error} onRetry={() => void answer.refetch()} />;
  if (!answer.data) return <SkeletonRows rows={2} columns={2} label="Loading answer" />;
  const { allowed, reason, bindings, narrowedBy } = answer.data;
  return (
    <Card>
      <div className="flex flex-col gap-3">
        <p role="status" className="flex items-start gap-2 text-14 font-medium wrap-anywhere">
          {allowed ? (
            <CircleCheck aria-hidden className="mt-0.5 size-4.5 shrink-0 text-ok-text" />
          ) : (
            <CircleX aria-hidden className="mt-0.5 size-4.5 shrink-0 text-danger-text" />
          )}
          {sentence(reason)}
        </p>
        {bindings.length > 0 ? (
          <section className="text-13">
            <h3 className="text-ink-3">{allowed ? "By these roles" : "They have it elsewhere"}</h3>
            <ul>
              {bindings.map(({ binding, group }) => (
                <li key={`${binding?.id}${group}`}>
                  <span className="font-medium">{roleName(binding?.role ?? "")}</span>{" "}
                  {placeText(binding?.scope)}
                  {group ? <span className="text-ink-2">, through the group {group}</span> : null}
                </li>
              ))}
            </ul>
          </section>
        ) : null}
        {narrowedBy.length > 0 ? (
          <section className="text-13">
            <h3 className="text-ink-3">What takes it away</h3>
            <ul>
              {narrowedBy.map((limit) => (
                <li key={limit}>{sentence(limit)}</li>
              ))}
            </ul>
          </section>
        ) : null}
      </div>
    </Card>
  );
}

function WhoCan({ tenant, question }: { tenant: string; question: AccessQuestion & { what: string } }) {
  const answer = useQuery(principalReads.whoCan(tenant, question));
  if (answer.error) return <Problem error={answer.error} onRetry={() => void answer.refetch()} />;
  return (
    <Card flush>
      <Table
        label="Who can"
        rows={answer.data}
        rowKey={(row) => row.principalId}
        initialSort={{ column: "who", descending: false }}
        empty={<p className="px-4 py-4 text-13 text-ink-3">Nobody has {question.what} there.</p>}
        columns={[
          {
            id: "who",
            header: "Who",
            phone: "title",
            sort: (row) => row.principal,
            cell: (row) => <span className="font-medium wrap-anywhere">{row.principal}</span>,
          },
          { id: "roles", header: "By roles", cell: (row) => <RoleBadges roles={row.roles} none="–" /> },
          { id: "groups", header: "Through groups", cell: (row) => row.groups.join(", ") || "–" },
        ]}
      />
    </Card>
  );
}
