import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronRight, CircleCheck, CirclePause, History, Repeat } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge, type Tone } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { NoneSoFar } from "~/components/ui/empty";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { More, Unseen } from "~/components/work/parts";
import type { Agent, Job } from "~/data/jobs-api";
import { type Iteration, pageApi } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import type { Scope } from "~/data/token";
import { dollars } from "~/lib/money";
import { compact, count } from "~/lib/numbers";

const Confirm = lazy(() => import("~/components/confirm"));

interface IterationsProps {
  scope: Scope;
  job: Job;
  agent: Agent;
  /** Why nothing may be replayed by whoever looks. */
  blockedBecause: string | undefined;
}

/** An agent job's iterations, and continuing from one of them. */
export default function Iterations({ scope, job, agent, blockedBecause }: IterationsProps) {
  const navigate = useNavigate();
  const list = useInfiniteQuery(pageReads.iterations(scope, job.id));
  const [from, setFrom] = useState<Iteration | null>(null);
  useRefresh(pageReads.iterations(scope, job.id).queryKey, (event) => event.job_id === job.id);
  const rows = list.data?.pages.flatMap((page) => page.rows);

  async function replay({ iteration }: Iteration) {
    const { job_id } = await pageApi.replay(scope, job.id, iteration);
    toast({ title: `Replaying from iteration ${iteration}`, description: `Created ${job_id}.` });
    await navigate({ to: "/$tenant/$namespace/jobs/$job", params: { ...scope, job: job_id } });
  }

  if (list.error && !rows) return <Problem error={list.error} onRetry={() => void list.refetch()} />;
  return (
    <div className="flex flex-col gap-4">
      <Limits agent={agent} />
      {rows === undefined ? (
        <SkeletonRows rows={3} columns={3} label="Loading iterations" />
      ) : rows.length === 0 && list.hasNextPage ? (
        <NoneSoFar />
      ) : rows.length === 0 ? (
        <p className="py-6 text-center text-13 text-ink-3">
          No iterations yet. Each one appears here with its cost and checkpoint.
        </p>
      ) : (
        <ol aria-label="Iterations" className="divide-y divide-line rounded-lg border border-line">
          {rows.map((row) => (
            <Row
              key={row.iteration}
              row={row}
              blockedBecause={blockedBecause}
              onReplay={() => setFrom(row)}
            />
          ))}
        </ol>
      )}
      <More list={list} />
      <Suspense>
        {from ? (
          <Confirm
            onClose={() => setFrom(null)}
            title={`Replay from iteration ${from.iteration}?`}
            confirmLabel="Replay job"
            variant="primary"
            onConfirm={() => replay(from)}
          >
            <p>
              This creates a new job in {job.queue} with the same payload and limits, starting where iteration{" "}
              {from.iteration} ended. This job isn't changed.
            </p>
            {from.redacted ? null : from.checkpoint === undefined ? (
              <p className="mt-3">
                That iteration left no checkpoint, so the new job starts from its payload.
              </p>
            ) : (
              <div className="mt-3">
                <CodeBlock
                  code={from.checkpoint}
                  language="json"
                  label={`Checkpoint of iteration ${from.iteration}`}
                  title="Checkpoint"
                  wrap
                  maxHeight="max-h-60"
                />
              </div>
            )}
          </Confirm>
        ) : null}
      </Suspense>
    </div>
  );
}

/** The job's progress against its limits. */
function Limits({ agent }: { agent: Agent }) {
  return (
    <dl className="grid grid-cols-2 gap-x-6 gap-y-3">
      <Limit
        label="Iteration"
        value={count(agent.iteration)}
        of={agent.max_iterations ? count(agent.max_iterations) : undefined}
        share={agent.max_iterations ? agent.iteration / agent.max_iterations : undefined}
      />
      <Limit
        label="Cost"
        value={dollars(agent.total_cost_usd)}
        of={agent.max_cost_usd ? dollars(agent.max_cost_usd) : undefined}
        share={agent.max_cost_usd ? agent.total_cost_usd / agent.max_cost_usd : undefined}
      />
    </dl>
  );
}

interface LimitProps {
  label: string;
  value: string;
  of: string | undefined;
  share: number | undefined;
}

function Limit({ label, value, of, share }: LimitProps) {
  return (
    <div className="min-w-0">
      <dt className="text-12 text-ink-3">{label}</dt>
      <dd className="nums text-16 font-semibold">
        {value}
        <span className="text-12 font-normal text-ink-3">{of ? ` of ${of}` : ", no limit"}</span>
      </dd>
      {share === undefined ? null : (
        <dd aria-hidden className="mt-1.5 h-1 overflow-hidden rounded-full bg-muted-soft">
          <span
            className={`block h-full rounded-full ${share >= 1 ? "bg-warn-text" : "bg-info-text"}`}
            style={{ width: `${Math.min(100, share * 100)}%` }}
          />
        </dd>
      )}
    </div>
  );
}

const states: Record<Iteration["status"], { word: string; tone: Tone; icon: ReactNode }> = {
  continue: { word: "Continued", tone: "info", icon: <Repeat aria-hidden /> },
  done: { word: "Completed", tone: "ok", icon: <CircleCheck aria-hidden /> },
  hold: { word: "Held", tone: "pink", icon: <CirclePause aria-hidden /> },
};

interface RowProps {
  row: Iteration;
  blockedBecause: string | undefined;
  onReplay: () => void;
}

function Row({ row, blockedBecause, onReplay }: RowProps) {
  const state = states[row.status];
  const tokens = row.input_tokens + row.output_tokens + row.cache_creation_tokens + row.cache_read_tokens;
  return (
    <li className="flex flex-col gap-2 px-3 py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <span className="nums w-6 shrink-0 text-13 font-semibold">
          <span className="sr-only">Iteration </span>
          {row.iteration}
        </span>
        <span className="sm:w-34">
          <Badge tone={state.tone} icon={state.icon}>
            {state.word}
          </Badge>
        </span>
        <span className="nums min-w-0 grow text-13 max-sm:order-2 max-sm:basis-[calc(100%-6.5rem)]">
          {dollars(row.cost_usd)}
          <span className="text-12 text-ink-3">
            {tokens > 0 ? ` · ${compact(tokens)} tokens` : ""}
            {row.model ? ` · ${row.model}` : ""}
          </span>
        </span>
        <Time at={row.created_at} className="text-12 text-ink-3 max-sm:order-1 max-sm:ml-auto" />
        <Button
          size="sm"
          icon={<History aria-hidden />}
          className="max-sm:order-2"
          aria-label={`Replay from iteration ${row.iteration}`}
          blockedBecause={blockedBecause}
          onClick={onReplay}
        >
          Replay
        </Button>
      </div>
      {row.hold_reason ? <p className="text-13 wrap-anywhere text-ink-2 sm:pl-9">{row.hold_reason}</p> : null}
      {row.redacted ? <Unseen className="sm:pl-9" /> : null}
      {row.checkpoint === undefined && row.result === undefined ? null : (
        <details className="group sm:pl-9">
          <summary className="flex min-h-6 w-fit items-center gap-1 rounded-sm text-12 text-ink-2 hover:text-ink">
            <ChevronRight aria-hidden className="size-3.5 transition-transform group-open:rotate-90" />
            {row.result === undefined
              ? "Checkpoint"
              : row.checkpoint === undefined
                ? "Result"
                : "Checkpoint and result"}
          </summary>
          <div className="flex flex-col gap-3 pt-2">
            {row.checkpoint === undefined ? null : (
              <CodeBlock
                code={row.checkpoint}
                language="json"
                label={`Checkpoint after iteration ${row.iteration}`}
                title="Checkpoint"
                wrap
                maxHeight="max-h-80"
              />
            )}
            {row.result === undefined ? null : (
              <CodeBlock
                code={row.result}
                language="json"
                label={`Result of iteration ${row.iteration}`}
                title="Result"
                wrap
                maxHeight="max-h-80"
              />
            )}
          </div>
        </details>
      )}
    </li>
  );
}
