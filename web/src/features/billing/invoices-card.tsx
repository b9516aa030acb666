import { useInfiniteQuery } from "@tanstack/react-query";
import { ExternalLink, FileText, Receipt } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { Badge, type Tone } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { billingReads } from "~/data/billing";
import type { Invoice } from "~/gen/corvo/cloud/v1/usage_pb";
import { periodText } from "~/lib/billing";
import { money } from "~/lib/money";

const InvoiceDialog = lazy(() => import("./invoice-dialog"));

/** What an invoice's state means. */
const states: Record<string, { word: string; tone: Tone }> = {
  draft: { word: "draft", tone: "neutral" },
  final: { word: "final", tone: "info" },
  paid: { word: "paid", tone: "ok" },
};

export function InvoicesCard({ tenant }: { tenant: string }) {
  const invoices = useInfiniteQuery(billingReads.invoices(tenant));
  const [open, setOpen] = useState<Invoice>();
  const rows = invoices.data?.pages.flatMap((page) => page.invoices);
  return (
    <Card title="Invoices" description="The newest first, before tax." flush>
      {invoices.error && !invoices.data ? (
        <Problem error={invoices.error} onRetry={() => void invoices.refetch()} />
      ) : (
        <Table
          paged
          more={invoices.hasNextPage}
          label="Invoices"
          columns={columns(setOpen)}
          rows={rows}
          rowKey={(invoice) => `${invoice.periodStart?.seconds}/${invoice.total}/${invoice.state}`}
          skeletonRows={3}
          empty={
            <EmptyState icon={<Receipt aria-hidden />} title="No invoices yet">
              The invoice of a month appears here once the month is over.
            </EmptyState>
          }
        />
      )}
      {invoices.hasNextPage ? (
        <div className="flex justify-center border-t border-line px-4 py-2.5">
          <Button size="sm" busy={invoices.isFetchingNextPage} onClick={() => void invoices.fetchNextPage()}>
            Show more
          </Button>
        </div>
      ) : null}
      <Suspense>{open ? <InvoiceDialog invoice={open} onClose={() => setOpen(undefined)} /> : null}</Suspense>
    </Card>
  );
}

const columns = (show: (invoice: Invoice) => void): readonly Column<Invoice>[] => [
  {
    id: "period",
    header: "Period",
    phone: "title",
    cell: (invoice) => <span className="font-medium">{periodText(invoice)}</span>,
  },
  {
    id: "state",
    header: "State",
    cell: ({ state }) => (
      <Badge tone={states[state]?.tone ?? "neutral"}>{states[state]?.word ?? state}</Badge>
    ),
  },
  {
    id: "total",
    header: "Total",
    align: "right",
    cell: ({ total, currency }) => <span className="nums font-medium">{money(total, currency)}</span>,
  },
  {
    id: "page",
    header: "Page",
    hideHeader: true,
    align: "right",
    cell: (invoice) =>
      invoice.url ? (
        <a
          href={invoice.url}
          target="_blank"
          rel="noreferrer"
          aria-label={`Open the invoice of ${periodText(invoice)}`}
          className="inline-flex items-center gap-1 text-13 text-accent-text hover:underline"
        >
          Open
          <ExternalLink aria-hidden className="size-3.5" />
        </a>
      ) : null,
  },
  actionsColumn({ width: "w-16", phone: "corner", blockedBecause: undefined }, (invoice) => [
    {
      label: `Show lines of ${periodText(invoice)}`,
      icon: <FileText aria-hidden />,
      onClick: () => show(invoice),
    },
  ]),
];
