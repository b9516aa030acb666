import { useQuery } from "@tanstack/react-query";
import { Link, useRouteContext } from "@tanstack/react-router";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { toast } from "~/components/ui/toast";
import { describeError } from "~/data/control";
import { operatorReads, operators, useOperatorChange } from "~/data/operator";
import { viewing } from "~/features/operator/command";
import { Refused } from "~/features/operator/refused";
import type {
  BillingDifference,
  BillingPush,
  CellUsage,
  GetReconciliationResponse,
  UsageAlarm,
} from "~/gen/corvo/cloud/v1/operator_pb";
import { count } from "~/lib/numbers";
import { reconciliationEquivalents } from "~/lib/operator-equivalents";
import { dateOf } from "~/lib/proto-time";

/** Whether the ledger, what was sent and what Stripe counted agree, and what keeps hours open. */
export function ReconciliationPage() {
  const { operatorRole } = useRouteContext({ from: "/operator" });
  const state = useQuery(operatorReads.reconciliation());
  useCopyAs(reconciliationEquivalents);
  const run = useOperatorChange(
    () => operators.runReconciliation({}),
    () => "The comparison begins within a minute",
  );
  const { data } = state;
  return (
    <Page
      title="Reconciliation"
      description="Once a day, what was counted is compared with what was sent to Stripe and with what Stripe counted."
      actions={
        <Button
          variant="primary"
          busy={run.isPending}
          blockedBecause={
            viewing(operatorRole) ??
            (!data
              ? "Loading the last comparison."
              : !data.payments
                ? "Payments are off here, so there is nothing to compare."
                : data.askedAt
                  ? "A comparison begins within a minute."
                  : undefined)
          }
          onClick={() =>
            run.mutate(undefined, {
              onError: (error) =>
                toast({ kind: "error", title: "Couldn't start", description: describeError(error) }),
            })
          }
        >
          Compare now
        </Button>
      }
    >
      {state.error && !data ? (
        <Refused error={state.error} onRetry={() => void state.refetch()} />
      ) : data ? (
        <State data={data} />
      ) : (
        <SkeletonRows rows={6} columns={4} label="Loading the comparison" />
      )}
    </Page>
  );
}

function State({ data }: { data: GetReconciliationResponse }) {
  return (
    <>
      <Verdict data={data} />
      <Card title="Sent to Stripe">
        <Facts
          items={[
            {
              label: "Last comparison",
              value: <Time at={dateOf(data.comparedAt)} none="Never" format="local" />,
            },
            { label: "Not sent yet", value: count(data.pushesWaiting) },
            { label: "Sent, no answer", value: count(data.pushesUnanswered) },
            { label: "Unconfirmed after 3 h", value: count(data.pushesLate) },
            { label: "Taken differently", value: count(data.pushesDiffering) },
          ]}
        />
      </Card>
      <Card
        title="Differences"
        description="By tenant, meter and day, in the units of Stripe's meters."
        flush
      >
        <Table
          label="Differences"
          rows={data.differences}
          rowKey={(row) => `${row.tenantId} ${row.meter} ${row.day}`}
          columns={differenceColumns}
          empty={<p className="px-4 py-4 text-13 text-ink-3">The last comparison found none.</p>}
        />
      </Card>
      <Card title="Waiting" description="What isn't at Stripe for certain, the oldest first." flush>
        <Table
          label="Waiting"
          rows={data.pushes}
          rowKey={(row) => `${row.tenantId} ${row.meter} ${dateOf(row.hour)?.getTime()} ${row.value}`}
          columns={pushColumns}
          empty={<p className="px-4 py-4 text-13 text-ink-3">Everything was sent and taken.</p>}
        />
      </Card>
      <Card
        title="Hours"
        description="An hour closes when every shard and proxy has told what it counted in it."
        flush
      >
        <Table
          label="Hours"
          rows={data.cells}
          rowKey={(row) => row.cell}
          columns={cellColumns}
          empty={<p className="px-4 py-4 text-13 text-ink-3">No cell has closed an hour yet.</p>}
        />
      </Card>
      <Card
        title="Alarms"
        description="What sources said in the last 30 days that can't be. It was not billed."
        flush
      >
        <Table
          label="Alarms"
          rows={data.alarms}
          rowKey={(row) =>
            `${row.tenantId} ${row.namespaceId} ${row.source} ${row.problem} ${dateOf(row.hour)?.getTime()}`
          }
          columns={alarmColumns}
          empty={<p className="px-4 py-4 text-13 text-ink-3">No alarms.</p>}
        />
      </Card>
    </>
  );
}

/** What the page comes down to. */
function Verdict({ data }: { data: GetReconciliationResponse }) {
  if (data.problems.length > 0)
    return <Banner tone="danger" title={`Look at this: ${data.problems.join("; ")}`} />;
  if (!data.payments)
    return (
      <Banner title="Payments are off">
        Nothing is sent to Stripe. Hours are counted and closed anyway.
      </Banner>
    );
  return <Banner tone="ok" title="Everything agrees" />;
}

function Tenant({ id, name }: { id: string; name: string }) {
  return (
    <Link to="/operator/tenants/$id" params={{ id }} className="font-medium hover:underline">
      {name || id}
    </Link>
  );
}

const number = (value: bigint) => <span className="nums">{count(value)}</span>;

const differenceColumns: readonly Column<BillingDifference>[] = [
  {
    id: "tenant",
    header: "Tenant",
    phone: "title",
    cell: (row) => <Tenant id={row.tenantId} name={row.tenant} />,
  },
  { id: "day", header: "Day (UTC)", cell: (row) => row.day },
  { id: "meter", header: "Meter", cell: (row) => row.meter },
  { id: "ledger", header: "Ledger", align: "right", cell: (row) => number(row.ledger) },
  { id: "sent", header: "Sent", align: "right", cell: (row) => number(row.sent) },
  { id: "stripe", header: "Stripe", align: "right", cell: (row) => number(row.stripe) },
  { id: "found", header: "Found", cell: (row) => <Time at={dateOf(row.foundAt)} /> },
];

const pushColumns: readonly Column<BillingPush>[] = [
  {
    id: "tenant",
    header: "Tenant",
    phone: "title",
    cell: (row) => <Tenant id={row.tenantId} name={row.tenant} />,
  },
  { id: "hour", header: "Hour", cell: (row) => <Time at={dateOf(row.hour)} format="local" /> },
  { id: "meter", header: "Meter", cell: (row) => row.meter },
  { id: "value", header: "Value", align: "right", cell: (row) => number(row.value) },
  {
    id: "state",
    header: "State",
    phone: "corner",
    cell: (row) => <Badge tone={row.state === "waiting" ? "neutral" : "warn"}>{row.state}</Badge>,
  },
  { id: "attempts", header: "Attempts", align: "right", cell: (row) => row.attempts },
  {
    id: "error",
    header: "Last error",
    phone: "block",
    cell: (row) => <span className="wrap-anywhere text-ink-2">{row.lastError || "–"}</span>,
  },
];

const cellColumns: readonly Column<CellUsage>[] = [
  { id: "cell", header: "Cell", phone: "title", cell: (row) => row.cell },
  { id: "closed", header: "Closed to", cell: (row) => <Time at={dateOf(row.closedTo)} format="local" /> },
  {
    id: "late",
    header: "State",
    phone: "corner",
    cell: (row) => <Badge tone={row.late ? "danger" : "ok"}>{row.late ? "late" : "on time"}</Badge>,
  },
  {
    id: "sources",
    header: "Kept open by",
    phone: "block",
    cell: (row) =>
      row.lateSources.length === 0 ? (
        "–"
      ) : (
        <ul>
          {row.lateSources.map((source) => (
            <li key={source.source}>
              <code className="font-mono text-12">{source.source}</code>, complete to{" "}
              <Time at={dateOf(source.completeTo)} none="nothing" />
            </li>
          ))}
        </ul>
      ),
  },
];

const alarmColumns: readonly Column<UsageAlarm>[] = [
  {
    id: "tenant",
    header: "Tenant",
    phone: "title",
    cell: (row) => <Tenant id={row.tenantId} name={row.tenant} />,
  },
  {
    id: "problem",
    header: "Problem",
    phone: "corner",
    cell: (row) => <Badge tone="warn">{row.problem}</Badge>,
  },
  { id: "hour", header: "Hour", cell: (row) => <Time at={dateOf(row.hour)} format="local" /> },
  {
    id: "source",
    header: "Source",
    cell: (row) => <code className="font-mono text-12">{`${row.cell} ${row.source}`}</code>,
  },
  { id: "times", header: "Times", align: "right", cell: (row) => number(row.times) },
  { id: "last", header: "Last", cell: (row) => <Time at={dateOf(row.lastAt)} /> },
];
