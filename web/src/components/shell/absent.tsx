import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import { NotFound, PageFrame } from "~/components/problem";
import { buttonClass } from "~/components/ui/button";
import { EmptyState } from "~/components/ui/empty";
import { usePageTitle } from "~/components/ui/page";
import { reads } from "~/data/queries";

// What is foreign and what is missing look the same: the server does not tell them apart either.

const SHOWN = 8;

/** Replaces every page of a namespace that does not exist, or that the user may not see. */
export function NoNamespace({ tenant, namespace }: { tenant: string; namespace: string }) {
  usePageTitle("Namespace not found");
  const { data } = useQuery(reads.namespaces(tenant));
  return (
    <div role="alert">
      <EmptyState
        level={1}
        icon={<Compass aria-hidden />}
        title={`Namespace ${namespace} not found`}
        action={
          <>
            {(data ?? []).slice(0, SHOWN).map(({ name }) => (
              <Link
                key={name}
                to="/$tenant/$namespace"
                params={{ tenant, namespace: name }}
                className={buttonClass("secondary")}
              >
                {name}
              </Link>
            ))}
            <Link to="/$tenant/settings/namespaces" params={{ tenant }} className={buttonClass("ghost")}>
              All namespaces
            </Link>
          </>
        }
      >
        It may have been deleted, the link may be wrong, or you may not have access.
        {data && data.length > 0 ? " Choose one of these:" : ""}
      </EmptyState>
    </div>
  );
}

/** For an unknown URL: names the tenant, if the tenant does not exist. */
export function NoTenant() {
  const { tenant } = useParams({ strict: false });
  const { data } = useQuery(reads.identity());
  if (!data || data.tenants.some((entry) => entry.tenant === tenant)) return <NotFound />;
  return <Absent tenant={tenant ?? ""} tenants={data.tenants.map((entry) => entry.tenant)} />;
}

function Absent({ tenant, tenants }: { tenant: string; tenants: readonly string[] }) {
  usePageTitle("Tenant not found");
  return (
    <PageFrame>
      <EmptyState
        level={1}
        icon={<Compass aria-hidden />}
        title={`Tenant ${tenant} not found`}
        action={
          tenants.length > 0 ? (
            tenants.slice(0, SHOWN).map((name) => (
              <Link key={name} to="/$tenant" params={{ tenant: name }} className={buttonClass("secondary")}>
                {name}
              </Link>
            ))
          ) : (
            <Link to="/signup" className={buttonClass("primary")}>
              New tenant
            </Link>
          )
        }
      >
        It may have been deleted, the link may be wrong, or you may not have access.
        {tenants.length > 0 ? " Choose one of yours:" : " You're not a member of any tenant yet."}
      </EmptyState>
    </PageFrame>
  );
}
