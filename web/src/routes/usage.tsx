import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChartColumn } from "lucide-react";
import type { ReactNode } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Card } from "~/components/ui/card";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { NativeSelect } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { Skeleton } from "~/components/ui/skeleton";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import type { Usage, UsageSummary } from "~/data/page-api";
import { pageReads } from "~/data/page-queries";
import { useRefresh } from "~/data/refresh";
import { useRights } from "~/data/rights";
import type { Scope } from "~/data/token";
import { Budgets } from "~/features/usage/budgets";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { dollars } from "~/lib/money";
import { compact, count } from "~/lib/numbers";
import { reportUsage, usageEquivalents } from "~/lib/page-equivalents";
import type { UsageGrouping, UsagePeriod } from "~/lib/usage";

const route = getRouteApi("/$tenant/$namespace/usage");

const periods: Record<UsagePeriod, string> = {
  "1h": "last hour",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
};
const groupings: Record<UsageGrouping, string> = { queue: "Queue", model: "Model", provider: "Provider" };

type Group = UsageSummary["groups"][number];

/** Model usage, its cost, and budgets. */
export function UsagePage() {
  const scope = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/usage" });
  const rights = useRights(scope);
  const { period = "24h", by = "queue" } = search;
  const usage = useQuery({ ...pageReads.usage(scope, period, by), placeholderData: (was) => was });
  const blocked = rights.blocked(Permission.BUDGET_UPDATE);
  useCopyAs(usageEquivalents(period, by));
  useRefresh(pageReads.usage(scope, period, by).queryKey, (event) => event.data?.from === "active");

  const change = (part: { period?: UsagePeriod; by?: UsageGrouping }) =>
    void navigate({ search: (was) => ({ ...was, ...part }), replace: true, resetScroll: false });
  const { data } = usage;
  const used = data && (data.totals.count > 0 || data.groups.length > 0);

  return (
    <Page
      description={
        data ? (
          <>
            Tokens and cost as reported by workers, since <Time at={data.from} format="local" />.
          </>
        ) : (
          "Tokens and cost as reported by workers."
        )
      }
      actions={
        <>
          <NativeSelect
            aria-label="Period"
            className="w-40"
            value={period}
            onChange={(next) => change({ period: next as UsagePeriod })}
          >
            {Object.entries(periods).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </NativeSelect>
          <NativeSelect
            aria-label="Group by"
            className="w-36"
            value={by}
            onChange={(next) => change({ by: next as UsageGrouping })}
          >
            {Object.entries(groupings).map(([value, label]) => (
              <option key={value} value={value}>
                by {label.toLowerCase()}
              </option>
            ))}
          </NativeSelect>
        </>
      }
    >
      {usage.error && !data ? (
        <Problem error={usage.error} onRetry={() => void usage.refetch()} />
      ) : (
        <>
          <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
            <Tile label="Cost" value={data && dollars(data.totals.cost_usd)} note={periods[period]} />
            <Tile
              label="Input tokens"
              value={data && compact(data.totals.input_tokens)}
              title={data && count(data.totals.input_tokens)}
              note={data ? `and ${compact(data.totals.cache_read_tokens)} cached` : ""}
            />
            <Tile
              label="Output tokens"
              value={data && compact(data.totals.output_tokens)}
              title={data && count(data.totals.output_tokens)}
              note={data ? `${compact(data.totals.cache_creation_tokens)} to the cache` : ""}
            />
            <Tile
              label="Reports"
              value={data && compact(data.totals.count)}
              note="attempts that used models"
            />
          </div>
          <Card flush>
            {data && !used ? (
              <EmptyState
                icon={<ChartColumn aria-hidden />}
                title="No usage yet"
                snippet={<CodeBlock language="shell" label="Report usage" code={reportUsage} />}
              >
                Workers report tokens and cost with an ack, a failure or a heartbeat. The totals appear here
                right away.
              </EmptyState>
            ) : (
              <Table
                label={`Usage by ${by}`}
                columns={columns(scope, by, data?.totals)}
                rows={data?.groups}
                rowKey={(group) => group.key}
                initialSort={{ column: "cost", descending: true }}
              />
            )}
          </Card>
        </>
      )}
      <Budgets scope={scope} blocked={blocked} />
    </Page>
  );
}

function columns(scope: Scope, by: keyof typeof groupings, totals: Usage | undefined): Column<Group>[] {
  const tokens = (id: keyof Usage, header: string): Column<Group> => ({
    id,
    header,
    align: "right",
    sort: (group) => group[id],
    phoneSkip: (group) => group[id] === 0,
    cell: (group) => (
      <span className="nums" title={count(group[id])}>
        {compact(group[id])}
      </span>
    ),
  });
  return [
    {
      id: "key",
      header: groupings[by],
      phone: "title",
      sort: (group) => group.key,
      cell: (group) =>
        by === "queue" ? (
          <Link
            to="/$tenant/$namespace/jobs"
            params={scope}
            search={{ queue: group.key }}
            className="inline-flex min-h-6 items-center font-medium wrap-anywhere underline-offset-2 hover:underline"
          >
            {group.key}
          </Link>
        ) : (
          <span className="font-medium wrap-anywhere">{group.key || "unknown"}</span>
        ),
    },
    {
      id: "cost",
      header: "Cost",
      width: "w-56",
      phone: "block",
      sort: (group) => group.cost_usd,
      cell: (group) => <Share value={group.cost_usd} of={totals?.cost_usd ?? 0} />,
    },
    tokens("input_tokens", "Input"),
    tokens("output_tokens", "Output"),
    tokens("cache_creation_tokens", "Cache written"),
    tokens("cache_read_tokens", "Cache read"),
    tokens("count", "Reports"),
  ];
}

/** A cost as a number, and its part of the whole as a bar. */
function Share({ value, of }: { value: number; of: number }) {
  return (
    <span className="grid grid-cols-[5rem_minmax(3rem,1fr)] items-center gap-3">
      <span className="nums">{dollars(value)}</span>
      <span aria-hidden className="h-1.5 overflow-hidden rounded-full bg-muted-soft">
        <span
          className="block h-full rounded-full bg-accent"
          style={{ width: `${of > 0 ? (100 * value) / of : 0}%` }}
        />
      </span>
    </span>
  );
}

function Tile({
  label,
  value,
  title,
  note,
}: {
  label: string;
  value: string | undefined;
  title?: string | undefined;
  note: ReactNode;
}) {
  return (
    <div className="rounded-xl border border-line bg-surface px-4 py-3 shadow-1">
      <span className="text-12 font-medium text-ink-3">{label}</span>
      {value === undefined ? (
        <Skeleton className="my-2 h-5 w-16" />
      ) : (
        <span className="nums mt-0.5 block text-26 font-semibold tracking-tight" title={title}>
          {value}
        </span>
      )}
      <span className="block truncate text-12 text-ink-3">{note}</span>
    </div>
  );
}
