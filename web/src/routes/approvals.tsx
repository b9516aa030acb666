import { useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Check, CircleCheck, Plus, X } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState, NoneSoFar } from "~/components/ui/empty";
import { KeyboardHint } from "~/components/ui/kbd";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Tabs } from "~/components/ui/tabs";
import { useNow } from "~/components/ui/time";
import { More } from "~/components/work/parts";
import { Who } from "~/components/work/who";
import type { Job, JobRow } from "~/data/jobs-api";
import { pageReads } from "~/data/page-queries";
import { reads } from "~/data/queries";
import { useRefresh } from "~/data/refresh";
import { type Rights, useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import type { Verb } from "~/features/approvals/decide-dialog";
import { Policies } from "~/features/approvals/policies";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { plural } from "~/lib/numbers";
import { approvalsEquivalents, holdOne } from "~/lib/page-equivalents";
import { useRowKeys } from "~/lib/row-keys";
import { duration, relativeTime } from "~/lib/time";

const route = getRouteApi("/$tenant/$namespace/approvals");
const DecideDialog = lazy(() => import("~/features/approvals/decide-dialog"));
const PolicyDialog = lazy(() => import("~/features/approvals/policy-dialog"));

/** Jobs that wait for a person, and the policies that made them wait. */
export function ApprovalsPage() {
  const scope = route.useParams();
  const { tab } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/approvals" });
  const rights = useRights(scope);
  const queues = useQuery(reads.queues(scope));
  const [making, setMaking] = useState(false);
  const blocked = rights.blocked(Permission.APPROVAL_UPDATE);
  const held = (queues.data ?? []).reduce((sum, queue) => sum + queue.held, 0);
  useCopyAs(approvalsEquivalents());
  const create = (
    <Button
      icon={<Plus aria-hidden />}
      variant="primary"
      blockedBecause={blocked}
      onClick={() => setMaking(true)}
    >
      New policy
    </Button>
  );
  return (
    <Page
      description={
        queues.data
          ? held === 0
            ? "No jobs waiting for approval."
            : `${plural(held, "job")} waiting for approval.`
          : "Loading"
      }
      actions={tab === "policies" ? create : null}
    >
      <Tabs
        label="Approvals"
        value={tab === "policies" ? "policies" : "waiting"}
        onChange={(next) =>
          void navigate({ search: next === "policies" ? { tab: next } : {}, replace: true })
        }
        tabs={[
          {
            value: "waiting",
            label: "Waiting",
            count: held,
            content: <Waiting scope={scope} rights={rights} />,
          },
          {
            value: "policies",
            label: "Policies",
            content: <Policies scope={scope} blocked={blocked} create={create} />,
          },
        ]}
      />
      <Suspense>{making ? <PolicyDialog scope={scope} onClose={() => setMaking(false)} /> : null}</Suspense>
    </Page>
  );
}

function Waiting({ scope, rights }: { scope: Scope; rights: Rights }) {
  const list = useInfiniteQuery(pageReads.held(scope));
  const rows = list.data?.pages.flatMap((page) => page.rows);
  // A list says which jobs are held; each job says why.
  const jobs = useQueries({ queries: (rows ?? []).map((row) => reads.job(scope, row.id)) });
  const [asking, setAsking] = useState<{ verb: Verb; job: JobRow } | null>(null);
  useRefresh(
    pageReads.held(scope).queryKey,
    (event) => event.data?.state === "held" || event.data?.from === "held",
  );
  const ask = (verb: Verb) => (id: string) => {
    const job = rows?.find((row) => row.id === id);
    if (job && !rights.blocked(Permission.JOB_APPROVE, job.queue)) setAsking({ verb, job });
  };
  const element = useRowKeys<HTMLUListElement>({ a: ask("approve"), x: ask("reject") });

  if (list.error && !rows) return <Problem error={list.error} onRetry={() => void list.refetch()} />;
  if (rows === undefined) return <SkeletonRows rows={4} columns={3} label="Loading held jobs" />;
  // The list lags the jobs by a moment: a decided job is not shown as waiting.
  const waiting = rows.flatMap((row, index) => {
    const job = jobs[index]?.data;
    return job && job.state !== "held" ? [] : [{ row, job }];
  });
  if (waiting.length === 0 && !list.hasNextPage)
    return (
      <EmptyState
        icon={<CircleCheck aria-hidden />}
        title="No approvals waiting"
        snippet={<CodeBlock language="shell" label="Hold a job" code={holdOne} />}
      >
        Jobs appear here when an approval policy matches, an agent asks for approval, a budget is reached, or
        someone holds them.
      </EmptyState>
    );
  return (
    <div className="flex flex-col gap-3">
      {waiting.length === 0 ? <NoneSoFar /> : null}
      <ul ref={element} className="flex flex-col gap-3">
        {waiting.map(({ row, job }) => (
          <Held
            key={row.id}
            scope={scope}
            row={row}
            job={job}
            blocked={rights.blocked(Permission.JOB_APPROVE, row.queue)}
            ask={ask}
          />
        ))}
      </ul>
      <span className="flex flex-wrap gap-4 px-1 max-sm:hidden">
        <KeyboardHint keys="j">next</KeyboardHint>
        <KeyboardHint keys="a">approve</KeyboardHint>
        <KeyboardHint keys="x">reject</KeyboardHint>
      </span>
      <More list={list} />
      <Suspense>
        {asking ? (
          <DecideDialog scope={scope} job={asking.job} verb={asking.verb} onClose={() => setAsking(null)} />
        ) : null}
      </Suspense>
    </div>
  );
}

interface HeldProps {
  scope: Scope;
  row: JobRow;
  job: Job | undefined;
  blocked: string | undefined;
  ask: (verb: Verb) => (id: string) => void;
}

function Held({ scope, row, job, blocked, ask }: HeldProps) {
  const hold = job?.hold;
  const now = useNow();
  const facts: ReactNode[] = [
    hold?.by ? (
      <>
        requested by <Who id={hold.by} />
      </>
    ) : hold?.policy ? (
      "requested by a policy"
    ) : null,
    hold?.at ? `waiting for ${duration(now - Date.parse(hold.at), 1)}` : null,
    hold?.until ? `decided automatically ${relativeTime(Date.parse(hold.until), now)}` : null,
    hold?.approvers?.length ? `for ${hold.approvers.join(", ")}` : null,
    job?.usage ? `$${job.usage.cost_usd} so far` : null,
  ].filter(Boolean);
  return (
    <li className="rounded-xl border border-line bg-surface px-4 py-3.5 shadow-1">
      <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-3">
        <div className="min-w-0 flex-1 basis-72">
          <p className="text-14 font-medium wrap-anywhere">{job ? (job.hold_reason ?? "Held") : "…"}</p>
          <p className="mt-0.5 flex flex-wrap items-center gap-x-2 text-12 text-ink-3">
            <span className="font-medium text-ink-2">{row.queue}</span>
            <Link
              to="/$tenant/$namespace/jobs/$job"
              params={{ ...scope, job: row.id }}
              preload={false}
              data-row={row.id}
              className="inline-flex min-h-6 items-center font-mono wrap-anywhere text-accent-text underline-offset-2 hover:underline"
            >
              {row.id}
            </Link>
          </p>
          <p className="flex flex-wrap gap-x-3 text-12 text-ink-3">
            {facts.map((fact, index) => (
              <span key={index} className="wrap-anywhere">
                {fact}
              </span>
            ))}
          </p>
        </div>
        <div className="flex gap-2">
          <Button
            size="sm"
            variant="primary"
            icon={<Check aria-hidden />}
            aria-label={`Approve ${row.id}`}
            blockedBecause={blocked}
            onClick={() => ask("approve")(row.id)}
          >
            Approve
          </Button>
          <Button
            size="sm"
            variant="danger-ghost"
            icon={<X aria-hidden />}
            aria-label={`Reject ${row.id}`}
            blockedBecause={blocked}
            onClick={() => ask("reject")(row.id)}
          >
            Reject
          </Button>
        </div>
      </div>
      {job && job.payload !== "{}" ? (
        <details className="mt-2">
          <summary className="min-h-6 w-fit cursor-pointer rounded-sm text-12 text-ink-2 hover:text-ink">
            Payload
          </summary>
          <CodeBlock
            code={job.payload}
            language="json"
            label={`Payload of ${row.id}`}
            wrap
            className="mt-1"
            maxHeight="max-h-64"
          />
        </details>
      ) : null}
    </li>
  );
}
