import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useRouteContext, useSearch } from "@tanstack/react-router";
import { Download, ScrollText, X } from "lucide-react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { adminReads, renewed, useChange } from "~/data/admin-queries";
import { reads } from "~/data/queries";
import { Events, type Narrowing } from "~/features/audit/events";
import { exportAudit } from "~/features/audit/export";
import { SinksCard } from "~/features/audit/sinks-card";
import { actionOptions } from "~/features/audit/words";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { AuditFormat } from "~/gen/corvo/cloud/v1/audit_pb";
import { auditEquivalents } from "~/lib/access-equivalents";

export function AuditPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const search = useSearch({ from: "/$tenant/settings/audit" });
  const navigate = useNavigate({ from: "/$tenant/settings/audit" });
  useCopyAs(auditEquivalents(tenant, search.action));
  const blocked = access.blocked(Permission.AUDIT_READ);
  const events = useInfiniteQuery({
    ...adminReads.audit(tenant, {
      action: search.action ?? "",
      actorId: search.actor ?? "",
      namespace: search.namespace ?? "",
      targetId: search.target ?? "",
    }),
    enabled: !blocked,
    ...renewed,
  });
  const namespaces = useQuery({ ...reads.namespaces(tenant), enabled: !blocked });
  const rows = events.data?.pages.flatMap((page) => page.events);

  function narrow(change: Narrowing) {
    void navigate({ search: (was) => clean({ ...was, ...change }), replace: true });
  }

  return (
    <Page
      description={`Who changed what in ${tenant}, newest first.`}
      actions={blocked ? null : <Exports tenant={tenant} blocked={access.blocked(Permission.AUDIT_EXPORT)} />}
    >
      {blocked ? (
        <EmptyState icon={<ScrollText aria-hidden />} title="You can't view the audit log">
          {blocked}
        </EmptyState>
      ) : events.error && !events.data ? (
        <Problem error={events.error} onRetry={() => void events.refetch()} />
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2">
            <Choice
              label="Action"
              className="w-full! sm:w-60!"
              options={actionOptions(search.action ?? "")}
              value={search.action ?? ""}
              onChange={(action) => narrow({ action })}
            />
            <Choice
              label="Namespace"
              className="w-full! sm:w-60!"
              options={namespaceOptions(
                namespaces.data?.map(({ name }) => name) ?? [],
                search.namespace ?? "",
              )}
              value={search.namespace ?? ""}
              onChange={(namespace) => narrow({ namespace })}
            />
            {search.actor ? (
              <Narrowed label="one actor" onClear={() => narrow({ actor: undefined })} />
            ) : null}
            {search.target ? (
              <Narrowed label="one target" onClear={() => narrow({ target: undefined })} />
            ) : null}
          </div>
          <Card flush>
            <Events rows={rows} more={events.hasNextPage} narrow={narrow} empty="No matching entries">
              Changes to settings, and what people and keys do to queues and jobs, appear here within a few
              seconds.
            </Events>
          </Card>
          {events.hasNextPage ? (
            <Button
              className="self-center"
              busy={events.isFetchingNextPage}
              onClick={() => void events.fetchNextPage()}
            >
              Show older
            </Button>
          ) : null}
          <SinksCard tenant={tenant} access={access} />
        </>
      )}
    </Page>
  );
}

function Exports({ tenant, blocked }: { tenant: string; blocked: string | undefined }) {
  const run = useChange(tenant, (format: AuditFormat) => exportAudit(tenant, format), {
    done: () => "Audit log exported",
  });
  return (
    <>
      <Button
        icon={<Download aria-hidden />}
        blockedBecause={blocked}
        busy={run.isPending && run.variables === AuditFormat.NATIVE}
        onClick={() => run.mutate(AuditFormat.NATIVE)}
      >
        Export log
      </Button>
      <Button
        icon={<Download aria-hidden />}
        blockedBecause={blocked}
        busy={run.isPending && run.variables === AuditFormat.OCSF}
        onClick={() => run.mutate(AuditFormat.OCSF)}
      >
        Export as OCSF
      </Button>
    </>
  );
}

/** The tenant's namespaces, and the one of the link, which may be deleted. */
function namespaceOptions(names: string[], chosen: string) {
  const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  return [{ value: "", label: "All namespaces" }, ...all.map((name) => ({ value: name, label: name }))];
}

/** An empty filter does not stand in the URL. */
function clean(search: Narrowing): Narrowing {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value));
}

function Narrowed({ label, onClear }: { label: string; onClear: () => void }) {
  return (
    <Button size="sm" icon={<X aria-hidden />} onClick={onClear} aria-label={`Show more than ${label}`}>
      {label}
    </Button>
  );
}
