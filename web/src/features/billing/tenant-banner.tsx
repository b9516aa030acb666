import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Banner } from "~/components/ui/banner";
import { buttonClass } from "~/components/ui/button";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { billingReads } from "~/data/billing";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { noticeOf } from "./notice";

/** Above every page of a tenant while its plan or payment stands in the way of its jobs. */
export default function TenantBanner({ tenant, access }: { tenant: string; access: Access }) {
  const subscription = useQuery({
    ...billingReads.subscription(tenant),
    enabled: access.can(Permission.TENANT_READ),
  });
  const spend = useQuery({
    ...billingReads.spendLimit(tenant),
    enabled: access.can(Permission.BILLING_READ),
  });
  const notice = subscription.data && noticeOf(subscription.data, spend.data);
  if (!notice) return null;
  const can = access.can(Permission.BILLING_UPDATE);
  return (
    <div className="mx-auto w-full max-w-7xl px-4 pt-4 sm:px-6 lg:px-8">
      <Banner
        tone={notice.tone}
        title={notice.title}
        action={
          <Link to={pages[notice.page].to} params={{ tenant }} className={buttonClass()}>
            {pages[notice.page].title}
          </Link>
        }
      >
        {notice.text}{" "}
        {notice.until ? (
          <>
            {notice.until.before} <Time at={notice.until.at} format="local" />. {notice.until.after}{" "}
          </>
        ) : null}
        {can ? null : `An owner of ${tenant} can do that.`}
      </Banner>
    </div>
  );
}

const pages = {
  plan: { to: "/$tenant/settings/plan", title: "Plan and usage" },
  billing: { to: "/$tenant/settings/billing", title: "Billing" },
} as const;
