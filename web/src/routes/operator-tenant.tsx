import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useRouteContext } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { operatorReads } from "~/data/operator";
import { LimitsCard } from "~/features/billing/limits-card";
import { viewing } from "~/features/operator/command";
import { Refused } from "~/features/operator/refused";
import { figures, State } from "~/features/operator/words";
import type {
  DescribeTenantResponse,
  PlanSegment,
  TenantReading,
  TenantSummary,
} from "~/gen/corvo/cloud/v1/operator_pb";
import type { Override, Subscription } from "~/gen/corvo/cloud/v1/plan_pb";
import type { Invoice } from "~/gen/corvo/cloud/v1/usage_pb";
import { entitlementText, meters, periodText, quantity } from "~/lib/billing";
import { money } from "~/lib/money";
import { plural } from "~/lib/numbers";
import { tenantEquivalents } from "~/lib/operator-equivalents";
import { dateOf } from "~/lib/proto-time";

const InvoiceLines = lazy(async () => ({
  default: (await import("~/features/billing/invoice-lines")).InvoiceLines,
}));
const SetPlanDialog = lazy(async () => ({
  default: (await import("~/features/operator/tenant-changes")).SetPlanDialog,
}));
const OverrideDialog = lazy(async () => ({
  default: (await import("~/features/operator/tenant-changes")).OverrideDialog,
}));
const RemoveOverrideDialog = lazy(async () => ({
  default: (await import("~/features/operator/tenant-changes")).RemoveOverrideDialog,
}));

const route = getRouteApi("/operator/tenants/$id");

type Opened = "plan" | "override" | { remove: string };

/** Where one tenant stands, and what an operator can change of it. */
export function OperatorTenantPage() {
  const { id } = route.useParams();
  const { operatorRole } = useRouteContext({ from: "/operator" });
  const blocked = viewing(operatorRole);
  const tenant = useQuery(operatorReads.tenant(id));
  const [opened, setOpened] = useState<Opened>();
  const is = tenant.data?.tenant;
  useCopyAs(tenantEquivalents(is?.tenant ?? id));
  return (
    <Page
      title={is?.tenant ?? "Tenant"}
      heading={
        is ? (
          <span className="inline-flex flex-wrap items-center gap-2">
            {is.tenant} <State state={is.state} />
          </span>
        ) : undefined
      }
      above={
        <nav aria-label="Breadcrumb" className="text-13">
          <Link to="/operator" className="text-ink-2 hover:underline">
            Tenants
          </Link>
        </nav>
      }
      description={is ? <About tenant={is} /> : undefined}
      actions={
        is ? (
          <>
            <Button blockedBecause={blocked} onClick={() => setOpened("plan")}>
              Change plan
            </Button>
            <Button variant="primary" blockedBecause={blocked} onClick={() => setOpened("override")}>
              Set override
            </Button>
          </>
        ) : null
      }
    >
      {tenant.error && !tenant.data ? (
        <Refused error={tenant.error} onRetry={() => void tenant.refetch()} />
      ) : tenant.data && is ? (
        <>
          <Standing data={tenant.data} tenant={is} blocked={blocked} open={setOpened} />
          <Suspense>
            <Dialogs tenant={is} opened={opened} onClose={() => setOpened(undefined)} />
          </Suspense>
        </>
      ) : (
        <SkeletonRows rows={8} columns={4} label="Loading the tenant" />
      )}
    </Page>
  );
}

function About({ tenant }: { tenant: TenantSummary }) {
  return (
    <>
      {tenant.displayName && tenant.displayName !== tenant.tenant ? `${tenant.displayName}. ` : ""}
      Plan {tenant.plan} version {tenant.planVersion}. {plural(tenant.members, "member")},{" "}
      {plural(tenant.namespaces, "namespace")}, signed up <Time at={dateOf(tenant.createdAt)} />.{" "}
      <code className="font-mono text-12">{tenant.tenantId}</code>
    </>
  );
}

interface DialogsProps {
  tenant: TenantSummary;
  opened: Opened | undefined;
  onClose: () => void;
}

function Dialogs({ tenant, opened, onClose }: DialogsProps): ReactNode {
  const plans = useQuery(operatorReads.plans());
  if (!opened) return null;
  if (opened === "plan") return <SetPlanDialog tenant={tenant.tenant} plan={tenant.plan} onClose={onClose} />;
  if (opened === "override")
    return <OverrideDialog tenant={tenant.tenant} kinds={plans.data?.entitlements ?? []} onClose={onClose} />;
  return <RemoveOverrideDialog tenant={tenant.tenant} name={opened.remove} onClose={onClose} />;
}

interface StandingProps {
  data: DescribeTenantResponse;
  tenant: TenantSummary;
  blocked: string | undefined;
  open: (what: Opened) => void;
}

function Standing({ data, tenant, blocked, open }: StandingProps) {
  const { subscription } = data;
  return (
    <>
      {tenant.inCell ? null : (
        <Banner tone="warn" title="The cell doesn't have all of this yet">
          The control plane is carrying the last change to the tenant's cell.
        </Banner>
      )}
      <Card
        title="Figures"
        description={
          <>
            Computed <Time at={dateOf(tenant.figures?.at)} none="not yet" />. Everything below is as of now.
          </>
        }
      >
        <dl className="grid grid-cols-2 gap-4 sm:grid-cols-3 lg:grid-cols-6">
          {figures.map(({ id, header, of }) => (
            <div key={id}>
              <dt className="text-12 text-ink-3">{header}</dt>
              <dd className="nums text-16 font-semibold">{tenant.figures ? of(tenant.figures) : "–"}</dd>
            </div>
          ))}
        </dl>
      </Card>
      <LimitsCard limits={data.limits} overLimit={subscription?.plan?.overLimit ?? ""} />
      {subscription ? <Overrides subscription={subscription} blocked={blocked} open={open} /> : null}
      <Bills data={data} />
      <div className="grid gap-5 lg:grid-cols-2">
        <Card title="Plans in force" description="In this month and the one before, the newest first." flush>
          <Table
            label="Plans in force"
            rows={data.segments}
            rowKey={(row) => String(dateOf(row.from)?.getTime())}
            columns={segmentColumns}
          />
        </Card>
        <Card title="Subscription">
          <Facts
            items={[
              { label: "State", value: subscription ? <State state={subscription.state} /> : "–" },
              { label: "Since", value: <Time at={dateOf(subscription?.stateSince)} none="–" /> },
              { label: "Until", value: <Time at={dateOf(subscription?.stateUntil)} none="–" /> },
              {
                label: "Next plan",
                value: subscription?.nextPlan ? (
                  <>
                    {subscription.nextPlan} <Time at={dateOf(subscription.nextPlanAt)} />
                  </>
                ) : (
                  "–"
                ),
              },
              { label: "Hours closed to", value: <Time at={dateOf(data.closedTo)} none="–" /> },
            ]}
          />
        </Card>
      </div>
      <Card
        title="Last readings"
        description="What shards and proxies said last, by hour, namespace and source."
        flush
      >
        <Table
          label="Last readings"
          rows={data.readings}
          rowKey={(row) => `${dateOf(row.hour)?.getTime()} ${row.namespaceId} ${row.cell} ${row.source}`}
          columns={readingColumns}
          empty={<p className="px-4 py-4 text-13 text-ink-3">Nothing was counted yet.</p>}
        />
      </Card>
    </>
  );
}

function Overrides({
  subscription,
  blocked,
  open,
}: { subscription: Subscription } & Pick<StandingProps, "blocked" | "open">) {
  const own = (name: string) => subscription.plan?.entitlements.find((each) => each.name === name);
  const unit = (name: string) => subscription.entitlements.find((each) => each.name === name)?.unit ?? "";
  const columns: readonly Column<Override>[] = [
    {
      id: "name",
      header: "Entitlement",
      phone: "title",
      cell: (row) => <code className="font-mono text-12">{row.name}</code>,
    },
    { id: "value", header: "Value", cell: (row) => entitlementText({ ...row, unit: unit(row.name) }) },
    {
      id: "plan",
      header: "By the plan",
      cell: (row) => {
        const plan = own(row.name);
        return plan ? entitlementText(plan) : "–";
      },
    },
    { id: "ends", header: "Ends", cell: (row) => <Time at={dateOf(row.endsAt)} none="Not by itself" /> },
    {
      id: "reason",
      header: "Reason",
      phone: "block",
      cell: (row) => <span className="wrap-anywhere">{row.reason}</span>,
    },
    actionsColumn({ width: "w-16", phone: "corner", blockedBecause: blocked }, (row) => [
      {
        label: `Remove override of ${row.name}`,
        icon: <Trash2 aria-hidden />,
        danger: true,
        onClick: () => open({ remove: row.name }),
      },
    ]),
  ];
  return (
    <Card title="Overrides" description="What counts in place of the plan." flush>
      <Table
        label="Overrides"
        rows={subscription.overrides}
        rowKey={(row) => row.name}
        columns={columns}
        empty={<p className="px-4 py-4 text-13 text-ink-3">The plan counts for everything.</p>}
      />
    </Card>
  );
}

function Bills({ data }: { data: DescribeTenantResponse }) {
  const { current, lastMonth } = data;
  const invoices = data.invoices.length > 0 ? data.invoices : lastMonth ? [lastMonth] : [];
  return (
    <Card
      title="This month"
      description={
        current
          ? `${money(current.total, current.currency)} so far from closed hours, ${money(data.forecastTotal, current.currency)} if it goes on like the last seven days. Before tax.`
          : "Before tax."
      }
      flush
    >
      <Suspense>{current ? <InvoiceLines invoice={current} /> : null}</Suspense>
      <h3 className="border-t border-line px-4 pt-3 text-13 font-semibold">Invoices</h3>
      <Table
        label="Invoices"
        rows={invoices}
        rowKey={(row) => `${dateOf(row.periodStart)?.getTime()} ${row.total}`}
        columns={invoiceColumns}
        empty={<p className="px-4 py-4 text-13 text-ink-3">No invoices yet.</p>}
      />
    </Card>
  );
}

const invoiceColumns: readonly Column<Invoice>[] = [
  { id: "period", header: "Period", phone: "title", cell: periodText },
  { id: "state", header: "State", cell: (row) => row.state },
  {
    id: "total",
    header: "Total",
    align: "right",
    cell: (row) => <span className="nums">{money(row.total, row.currency)}</span>,
  },
];

const segmentColumns: readonly Column<PlanSegment>[] = [
  {
    id: "plan",
    header: "Plan",
    phone: "title",
    cell: (row) => (
      <>
        {row.plan} <span className="text-12 text-ink-3">v{row.planVersion}</span>
      </>
    ),
  },
  { id: "from", header: "From", cell: (row) => <Time at={dateOf(row.from)} format="local" /> },
];

const readingColumns: readonly Column<TenantReading>[] = [
  {
    id: "hour",
    header: "Hour",
    phone: "title",
    cell: (row) => <Time at={dateOf(row.hour)} format="local" />,
  },
  { id: "namespace", header: "Namespace", cell: (row) => row.namespace || row.namespaceId },
  {
    id: "source",
    header: "Source",
    cell: (row) => <code className="font-mono text-12">{`${row.cell} ${row.source}`}</code>,
  },
  ...meters.map(
    (meter): Column<TenantReading> => ({
      id: meter.item,
      header: meter.title,
      align: "right",
      phoneSkip: ({ counts }) => !counts?.[meter.key],
      cell: ({ counts }) => <span className="nums">{quantity(meter, counts?.[meter.key] ?? 0n)}</span>,
    }),
  ),
];
