import { useQuery } from "@tanstack/react-query";
import { Gauge } from "lucide-react";
import { Problem } from "~/components/problem";
import { Bars } from "~/components/ui/bars";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { NativeSelect } from "~/components/ui/field";
import { Reveal } from "~/components/ui/reveal";
import { Skeleton } from "~/components/ui/skeleton";
import { type Column, Table } from "~/components/ui/table";
import { useNow } from "~/components/ui/time";
import { billingReads } from "~/data/billing";
import {
  byNamespace,
  type Day,
  daysOf,
  dayText,
  type Meter,
  meters,
  monthOf,
  monthText,
  type NamespaceUsage,
  quantity,
  shareOf,
  totalOf,
} from "~/lib/billing";
import { compact } from "~/lib/numbers";

interface UsageCardProps {
  tenant: string;
  /** The month before, instead of the current one. */
  last: boolean;
  /** Of one namespace alone. */
  namespace: string | undefined;
  onChange: (part: { month?: "last" | undefined; namespace?: string | undefined }) => void;
}

/** What was counted in a month: each meter by day, and the sums of each namespace. */
export function UsageCard({ tenant, last, namespace, onChange }: UsageCardProps) {
  const now = new Date(useNow());
  const month = monthOf(now, last ? 1 : 0);
  const whole = useQuery(billingReads.usage(tenant, month, !last, false));
  const parts = useQuery(billingReads.usage(tenant, month, !last, true));
  const namespaces = parts.data && byNamespace(parts.data.points);
  const points = namespace
    ? parts.data?.points.filter((point) => point.namespace === namespace)
    : whole.data?.points;
  const days = points && daysOf(month, points, now);
  const error = whole.error ?? parts.error;
  return (
    <Card
      title="Usage"
      description="Counted for billing. Hours and days are UTC; numbers of the last hours can still grow."
      action={
        <span className="flex flex-wrap gap-2">
          <NativeSelect
            aria-label="Month"
            className="w-44"
            value={last ? "last" : ""}
            onChange={(next) => onChange({ month: next === "last" ? "last" : undefined })}
          >
            <option value="">{monthText(monthOf(now))}</option>
            <option value="last">{monthText(monthOf(now, 1))}</option>
          </NativeSelect>
          <NativeSelect
            aria-label="Namespace"
            className="w-44"
            value={namespace ?? ""}
            onChange={(next) => onChange({ namespace: next || undefined })}
          >
            <option value="">All namespaces</option>
            {[...new Set([...(namespaces ?? []).map(({ name }) => name), namespace ?? ""])]
              .filter((name) => name !== "")
              .map((name) => (
                <option key={name}>{name}</option>
              ))}
          </NativeSelect>
        </span>
      }
      flush
    >
      {error && !(whole.data && parts.data) ? (
        <Problem error={error} onRetry={() => void Promise.all([whole.refetch(), parts.refetch()])} />
      ) : days && namespaces?.length === 0 ? (
        <EmptyState icon={<Gauge aria-hidden />} title={`No usage in ${monthText(month)}`}>
          {last
            ? "No job was enqueued or kept in this month."
            : "Jobs, executions and stored bytes appear here by day, some minutes after the first job."}
        </EmptyState>
      ) : (
        <>
          <div className="grid grid-cols-2 gap-px overflow-hidden bg-line lg:grid-cols-3">
            {meters.map((meter) => (
              <Chart
                key={meter.key}
                meter={meter}
                days={days}
                forecast={namespace ? undefined : whole.data?.forecast?.[meter.key]}
              />
            ))}
          </div>
          {days ? <DayTable days={days} month={monthText(month)} /> : null}
          {namespaces && !namespace ? (
            <div className="border-t border-line">
              <h3 className="px-4 pt-3 pb-1 text-13 font-semibold">By namespace</h3>
              <Table
                label={`Usage by namespace in ${monthText(month)}`}
                columns={namespaceColumns}
                rows={namespaces}
                rowKey={({ id }) => id}
              />
            </div>
          ) : null}
        </>
      )}
    </Card>
  );
}

const small = (value: bigint) => compact(value);

function Chart({
  meter,
  days,
  forecast,
}: {
  meter: Meter;
  days: readonly Day[] | undefined;
  forecast: bigint | undefined;
}) {
  const counted = (days ?? []).map(({ counts }) => counts);
  const peak = totalOf(counted, { ...meter, peak: true });
  const total = totalOf(counted, meter);
  return (
    <div className="min-w-0 bg-surface px-4 py-3">
      <p className="truncate text-12 text-ink-3">{meter.title}</p>
      {days === undefined ? (
        <Skeleton className="my-1 h-5 w-20" />
      ) : (
        <p className="nums text-20 font-semibold tracking-tight" title={quantity(meter, total)}>
          {quantity(meter, total, small)}
        </p>
      )}
      <Bars
        label={
          days === undefined
            ? `${meter.title}, loading`
            : `${meter.title} by day: ${quantity(meter, total)} in the month, at most ${quantity(meter, peak)} in a day`
        }
        fill="fill-accent"
        bars={(days ?? []).map((day) => ({
          key: day.start.toISOString(),
          height: shareOf(day.counts?.[meter.key] ?? 0n, peak),
          runs: !day.closed,
        }))}
      />
      <p className="nums mt-1.5 flex min-h-4 flex-wrap justify-between gap-x-2 text-11 text-ink-3">
        {days ? (
          <>
            <span>
              {forecast === undefined || meter.peak ? "" : `forecast ${quantity(meter, forecast, small)}`}
            </span>
            <span>{peak > 0n ? `peak day ${quantity(meter, peak, small)}` : ""}</span>
          </>
        ) : null}
      </p>
    </div>
  );
}

/** The same numbers to read. */
function DayTable({ days, month }: { days: readonly Day[]; month: string }) {
  const counted = days.filter(({ counts }) => counts !== undefined).reverse();
  return (
    <Reveal label={`Usage of ${month} as a table`}>
      {counted.length === 0 ? (
        <p className="pb-3 text-13 text-ink-3">Nothing was counted.</p>
      ) : (
        <table className="nums w-full text-right text-13">
          <caption className="pb-2 text-left text-12 text-ink-3">
            Newest first. Days without usage are left out.
          </caption>
          <thead>
            <tr className="border-b border-line text-12 text-ink-3">
              <th scope="col" className="py-1.5 text-left font-medium">
                Day
              </th>
              {meters.map(({ key, title }) => (
                <th key={key} scope="col" className="py-1.5 pl-3 font-medium whitespace-nowrap">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {counted.map(({ start, counts, closed }) => (
              <tr key={start.toISOString()}>
                <th scope="row" className="py-1.5 text-left font-normal whitespace-nowrap text-ink-2">
                  <time dateTime={start.toISOString().slice(0, 10)}>{dayText(start)}</time>
                  {closed ? "" : ", so far"}
                </th>
                {meters.map((meter) => (
                  <td key={meter.key} className="py-1.5 pl-3 whitespace-nowrap">
                    {quantity(meter, counts?.[meter.key] ?? 0n)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Reveal>
  );
}

const namespaceColumns: readonly Column<NamespaceUsage>[] = [
  {
    id: "namespace",
    header: "Namespace",
    phone: "title",
    sort: ({ name }) => name,
    cell: ({ name, id }) => (
      <span className="font-medium wrap-anywhere">
        {name || <span className="text-ink-3">deleted ({id})</span>}
      </span>
    ),
  },
  ...meters.map(
    (meter): Column<NamespaceUsage> => ({
      id: meter.key,
      header: meter.title,
      align: "right",
      sort: ({ totals }) => Number(totals[meter.key] ?? 0n),
      phoneSkip: ({ totals }) => !totals[meter.key],
      cell: ({ totals }) => (
        <span className="nums whitespace-nowrap" title={quantity(meter, totals[meter.key] ?? 0n)}>
          {quantity(meter, totals[meter.key] ?? 0n, small)}
        </span>
      ),
    }),
  ),
];
