import { type Column, Table } from "~/components/ui/table";
import type { Invoice, InvoiceLine } from "~/gen/corvo/cloud/v1/usage_pb";
import { dayText, lineSum, meterOf, quantity } from "~/lib/billing";
import { money } from "~/lib/money";
import { count } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";

/** The lines of an invoice, each with the numbers that it comes from. */
export function InvoiceLines({ invoice }: { invoice: Invoice }) {
  return (
    <Table
      label="Lines of the invoice"
      columns={columns(invoice.currency)}
      rows={invoice.lines}
      rowKey={(line) => `${line.item}/${line.plan}/${line.planVersion}/${line.from?.seconds ?? ""}`}
      empty={<p className="px-4 py-4 text-13 text-ink-3">This invoice has no lines.</p>}
    />
  );
}

const columns = (currency: string): readonly Column<InvoiceLine>[] => [
  {
    id: "title",
    header: "Item",
    phone: "title",
    cell: (line) => (
      <span className="flex min-w-0 flex-col">
        <span className="font-medium wrap-anywhere">{line.title || line.item}</span>
        <span className="text-12 text-ink-3">{span(line)}</span>
      </span>
    ),
  },
  {
    id: "quantity",
    header: "Counted",
    align: "right",
    phoneSkip: (line) => line.item === "base",
    cell: (line) => (
      <span className="nums whitespace-nowrap" title={count(line.quantity)}>
        {counted(line, line.quantity)}
      </span>
    ),
  },
  {
    id: "included",
    header: "Included",
    align: "right",
    phoneSkip: (line) => line.included === 0n,
    cell: (line) => (
      <span className="nums whitespace-nowrap" title={count(line.included)}>
        {line.included === 0n ? "–" : counted(line, line.included)}
      </span>
    ),
  },
  {
    id: "sum",
    header: "How it is computed",
    phone: "block",
    cell: (line) => <span className="nums text-12 wrap-anywhere text-ink-2">{lineSum(line, currency)}</span>,
  },
  {
    id: "amount",
    header: "Amount",
    align: "right",
    phone: "corner",
    cell: (line) => <span className="nums font-medium">{money(line.amount, currency)}</span>,
  },
];

function counted(line: InvoiceLine, value: bigint): string {
  const meter = meterOf(line.item);
  return meter ? quantity(meter, value) : "–";
}

function span(line: InvoiceLine): string {
  const from = dateOf(line.from);
  const to = dateOf(line.to);
  const plan = line.plan ? `plan ${line.plan}, version ${line.planVersion}` : "";
  return [from && to ? `${dayText(from)} to ${dayText(to)}` : "", plan].filter(Boolean).join(", ");
}
