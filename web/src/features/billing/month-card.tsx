import { useQuery } from "@tanstack/react-query";
import { Problem } from "~/components/problem";
import { Card } from "~/components/ui/card";
import { Code } from "~/components/ui/code";
import { SkeletonRows } from "~/components/ui/skeleton";
import { useNow } from "~/components/ui/time";
import { billingReads } from "~/data/billing";
import { monthOf, monthText } from "~/lib/billing";
import { money } from "~/lib/money";
import { InvoiceLines } from "./invoice-lines";

/** The invoice of the current month as it stands, and what it may become. */
export function MonthCard({ tenant }: { tenant: string }) {
  const month = monthOf(new Date(useNow()));
  const preview = useQuery(billingReads.invoice(tenant, month));
  const invoice = preview.data?.invoice;
  const stamp = month.toISOString().slice(0, 7);
  return (
    <Card
      title={monthText(month)}
      description="The invoice of this month from the hours that are final, before tax."
      action={
        invoice ? (
          <dl className="flex gap-6 text-right">
            <Total label="So far" value={money(invoice.total, invoice.currency)} />
            <Total label="Forecast" value={money(preview.data?.forecastTotal ?? 0n, invoice.currency)} />
          </dl>
        ) : null
      }
      footer={
        <>
          The forecast is for a month that goes on like the last seven days. Anybody can compute the lines
          again from the hours that were counted, with{" "}
          <Code>{`corvo usage export --month ${stamp} > ${stamp}.ndjson`}</Code> and{" "}
          <Code>{`corvo usage verify ${stamp}.ndjson`}</Code>
        </>
      }
      flush
    >
      {preview.error && !preview.data ? (
        <Problem error={preview.error} onRetry={() => void preview.refetch()} />
      ) : invoice ? (
        <InvoiceLines invoice={invoice} />
      ) : (
        <SkeletonRows rows={3} columns={4} label="Loading the invoice" />
      )}
    </Card>
  );
}

function Total({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <dt className="text-12 text-ink-3">{label}</dt>
      <dd className="nums text-16 font-semibold">{value}</dd>
    </div>
  );
}
