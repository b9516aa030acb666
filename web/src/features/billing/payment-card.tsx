import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ExternalLink } from "lucide-react";
import { useState } from "react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button, buttonClass } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Field, Textarea } from "~/components/ui/field";
import { SkeletonRows } from "~/components/ui/skeleton";
import { useChange } from "~/data/admin-queries";
import { billing, billingReads } from "~/data/billing";
import { otherError } from "~/data/control";
import { wrongAbout } from "~/data/field-errors";
import type { Billing } from "~/gen/corvo/cloud/v1/billing_pb";
import { plural } from "~/lib/numbers";
import { useProviderPage } from "./provider-page";

const EMAILS_MAX = 10;

interface Props {
  tenant: string;
  blocked: string | undefined;
}

/** How the tenant pays, and who gets emails about it. */
export function PaymentCard({ tenant, blocked }: Props) {
  const payments = useQuery(billingReads.payments(tenant));
  if (payments.error && !payments.data)
    return <Problem error={payments.error} onRetry={() => void payments.refetch()} />;
  if (!payments.data) return <SkeletonRows rows={3} columns={2} label="Loading payment" />;
  return (
    <>
      {payments.data.payments ? (
        <Method tenant={tenant} blocked={blocked} billed={payments.data} />
      ) : (
        <Card
          title="Payment"
          description="This installation takes no payments. Its operator changes plans and sends invoices."
        />
      )}
      <Emails key={payments.data.etag} tenant={tenant} blocked={blocked} billed={payments.data} />
    </>
  );
}

function Method({ tenant, blocked, billed }: Props & { billed: Billing }) {
  const portal = useProviderPage(tenant, () => billing.payments.openPortal({ tenant }));
  return (
    <Card
      title={
        <span className="flex flex-wrap items-center gap-2">
          Payment
          <Badge tone={billed.hasPaymentMethod ? "ok" : "neutral"}>
            {billed.hasPaymentMethod ? "payment method added" : "no payment method"}
          </Badge>
        </span>
      }
      description="Cards, addresses and tax IDs are entered on the payment provider's pages and never pass through Corvo."
      action={
        <span className="flex flex-wrap gap-2">
          {billed.hasPaymentMethod ? null : (
            <Link to="/$tenant/settings/plan" params={{ tenant }} className={buttonClass()}>
              Choose a plan
            </Link>
          )}
          <Button
            icon={<ExternalLink aria-hidden />}
            blockedBecause={blocked}
            busy={portal.isPending}
            onClick={() => portal.mutate(undefined)}
          >
            Open payment portal
          </Button>
        </span>
      }
    />
  );
}

const listed = (text: string) => text.split(/[\s,;]+/).filter(Boolean);

function Emails({ tenant, blocked, billed }: Props & { billed: Billing }) {
  const [text, setText] = useState(billed.emails.join("\n"));
  const emails = listed(text);
  const save = useChange(
    tenant,
    () => billing.payments.updateBilling({ tenant, emails, etag: billed.etag }),
    { quiet: true, done: () => "Saved the billing emails" },
  );
  const changed = emails.join(" ") !== billed.emails.join(" ");
  const tooMany =
    emails.length > EMAILS_MAX
      ? `Enter at most ${EMAILS_MAX} addresses; these are ${plural(emails.length, "address", "addresses")}.`
      : undefined;
  return (
    <Card
      title="Billing emails"
      description="Who gets emails about invoices and limits, besides owners and members with the billing role."
      action={
        <Button
          variant="primary"
          busy={save.isPending}
          blockedBecause={blocked ?? tooMany ?? (changed ? undefined : "Nothing has changed.")}
          onClick={() => save.mutate(undefined)}
        >
          Save emails
        </Button>
      }
    >
      <Field
        label="Addresses"
        note={`at most ${EMAILS_MAX}`}
        hint={blocked ?? "One on each line."}
        error={tooMany ?? wrongAbout(save.error)("emails") ?? otherError(save.error)}
      >
        <Textarea
          rows={3}
          disabled={blocked !== undefined}
          placeholder="invoices@company.com"
          value={text}
          onChange={setText}
        />
      </Field>
    </Card>
  );
}
