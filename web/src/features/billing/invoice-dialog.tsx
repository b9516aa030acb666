import { Dialog } from "~/components/ui/dialog";
import type { Invoice } from "~/gen/corvo/cloud/v1/usage_pb";
import { periodText } from "~/lib/billing";
import { money } from "~/lib/money";
import { InvoiceLines } from "./invoice-lines";

/** The lines of one invoice. */
export default function InvoiceDialog({ invoice, onClose }: { invoice: Invoice; onClose: () => void }) {
  return (
    <Dialog
      open
      readable
      size="lg"
      onOpenChange={() => onClose()}
      title={`Invoice of ${periodText(invoice)}`}
      description={`${money(invoice.total, invoice.currency)} before tax, ${invoice.state}`}
    >
      <div className="-mx-4">
        <InvoiceLines invoice={invoice} />
      </div>
    </Dialog>
  );
}
