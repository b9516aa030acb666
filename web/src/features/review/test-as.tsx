import { useQuery } from "@tanstack/react-query";
import { Check, FlaskConical, Minus } from "lucide-react";
import { Problem } from "~/components/problem";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { SkeletonRows } from "~/components/ui/skeleton";
import { principalReads } from "~/data/principal-queries";
import type { ReviewedPrincipal } from "~/gen/corvo/cloud/v1/review_pb";
import type { AccessQuestion } from "~/lib/access-equivalents";
import { Question } from "./question";

interface TestAsProps {
  tenant: string;
  principals: readonly ReviewedPrincipal[] | undefined;
  question: AccessQuestion;
  onChange: (part: AccessQuestion) => void;
}

/** Everything that somebody may do at a place, as the service decides it. */
export function TestAs(props: TestAsProps) {
  const { tenant, question } = props;
  return (
    <div className="flex flex-col gap-4">
      <Question {...props} anybody="Choose somebody" />
      {question.who ? (
        <Outcome tenant={tenant} question={{ ...question, who: question.who }} />
      ) : (
        <EmptyState icon={<FlaskConical aria-hidden />} title="Choose somebody">
          You'll see every permission that they have at the place, without signing in as them.
        </EmptyState>
      )}
    </div>
  );
}

const titles: Record<string, string> = { tenant: "Tenant", namespace: "Namespace", queue: "Queue" };

function Outcome({ tenant, question }: { tenant: string; question: AccessQuestion & { who: string } }) {
  const permissions = useQuery(principalReads.permissions());
  // A permission of the tenant is held there or nowhere.
  const asked = permissions.data?.filter(({ level }) => level !== "tenant" || !question.namespace) ?? [];
  const outcome = useQuery({
    ...principalReads.allowed(
      tenant,
      question,
      asked.map(({ name }) => name),
    ),
    enabled: asked.length > 0,
  });
  if (outcome.error) return <Problem error={outcome.error} onRetry={() => void outcome.refetch()} />;
  if (!outcome.data) return <SkeletonRows rows={6} columns={2} label="Loading permissions" />;
  const allowed = new Set(outcome.data);
  return (
    <div className="grid items-start gap-4 lg:grid-cols-3">
      {["tenant", "namespace", "queue"].map((level) => {
        const rows = asked.filter((info) => info.level === level);
        const has = rows.filter(({ name }) => allowed.has(name)).length;
        return rows.length === 0 ? null : (
          <Card key={level} title={titles[level]} description={`${has} of ${rows.length} permissions`}>
            <ul className="flex flex-col gap-1 text-13">
              {rows.map(({ name }) => (
                <li key={name} className="flex items-center gap-2">
                  {allowed.has(name) ? (
                    <Check aria-label="allowed:" className="size-4 shrink-0 text-ok-text" />
                  ) : (
                    <Minus aria-label="not allowed:" className="size-4 shrink-0 text-ink-3" />
                  )}
                  <span className={`font-mono text-12 ${allowed.has(name) ? "" : "text-ink-3"}`}>{name}</span>
                </li>
              ))}
            </ul>
          </Card>
        );
      })}
    </div>
  );
}
