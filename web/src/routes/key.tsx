import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate, useRouteContext } from "@tanstack/react-router";
import { Ban, Pencil, RefreshCw, ScrollText } from "lucide-react";
import { Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { Code } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { Table } from "~/components/ui/table";
import { Tabs } from "~/components/ui/tabs";
import { Time } from "~/components/ui/time";
import { Detail } from "~/components/work/detail";
import { Back, Id, More } from "~/components/work/parts";
import type { Access } from "~/data/access";
import { type AuditFilter, adminReads, renewed } from "~/data/admin-queries";
import { reads } from "~/data/queries";
import { Events } from "~/features/audit/events";
import { type Open, Opened } from "~/features/keys/opened";
import { KeyState } from "~/features/keys/state";
import { kindNames, type NamespaceNames, placeOf } from "~/features/keys/words";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";
import { keyEquivalents } from "~/lib/access-equivalents";
import { dateOf } from "~/lib/proto-time";

const route = getRouteApi("/$tenant/$namespace/keys/$key");

/** One API key: whose it is, what it can do, what happened to it and what it did. */
export function KeyPage() {
  const { key: id, ...scope } = route.useParams();
  const { tenant, namespace } = scope;
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.KEY_READ);
  const key = useQuery({ ...adminReads.key(tenant, id), enabled: !unreadable });
  const namespaces = useQuery(reads.namespaces(tenant));
  const [open, setOpen] = useState<Open>();
  useCopyAs(keyEquivalents(tenant, id));
  const names: NamespaceNames = new Map(namespaces.data?.map((entry) => [entry.id, entry.name]));
  const above = (
    <Back scope={scope} to="/$tenant/$namespace/keys">
      API keys
    </Back>
  );
  if (unreadable)
    return (
      <Page above={above}>
        <EmptyState icon={<Ban aria-hidden />} title="You can't view API keys">
          {unreadable}
        </EmptyState>
      </Page>
    );
  return (
    <Detail what="API key" query={key} above={above} heading={<Id id={id} />}>
      {(loaded) => (
        <Page
          above={above}
          title={loaded.name}
          heading={
            <span className="inline-flex flex-wrap items-center gap-2">
              {loaded.name}
              <KeyState apiKey={loaded} />
            </span>
          }
          description={`A key can do what its owner, ${loaded.owner}, can, narrowed by its own limits.`}
          actions={<Actions access={access} apiKey={loaded} setOpen={setOpen} />}
        >
          <div className="grid items-start gap-5 lg:grid-cols-2">
            <div className="flex min-w-0 flex-col gap-5">
              <Details apiKey={loaded} names={names} />
              <Secrets apiKey={loaded} />
            </div>
            <Rights tenant={tenant} apiKey={loaded} names={names} />
          </div>
          <History access={access} keyId={id} />
          <Suspense>
            <Opened namespace={namespace} access={access} names={names} open={open} setOpen={setOpen} />
          </Suspense>
        </Page>
      )}
    </Detail>
  );
}

interface ActionsProps {
  access: Access;
  apiKey: ApiKey;
  setOpen: (open: Open) => void;
}

function Actions({ access, apiKey, setOpen }: ActionsProps) {
  if (apiKey.revokedAt) return null;
  const blocked = access.blocked(Permission.KEY_UPDATE);
  return (
    <>
      <Button
        icon={<Pencil aria-hidden />}
        blockedBecause={blocked}
        onClick={() => setOpen({ what: "edit", key: apiKey })}
      >
        Edit
      </Button>
      <Button
        icon={<RefreshCw aria-hidden />}
        blockedBecause={blocked}
        onClick={() => setOpen({ what: "rotate", key: apiKey })}
      >
        Rotate
      </Button>
      <Button
        variant="danger-ghost"
        icon={<Ban aria-hidden />}
        blockedBecause={access.blocked(Permission.KEY_REVOKE)}
        onClick={() => setOpen({ what: "revoke", key: apiKey })}
      >
        Revoke
      </Button>
    </>
  );
}

interface KeyProps {
  apiKey: ApiKey;
  names: NamespaceNames;
}

function Details({ apiKey, names }: KeyProps) {
  const { permissions, queues, cidrs, namespaceIds } = apiKey;
  const narrowed = [
    ...(permissions.length ? [`Only ${permissions.join(", ")}`] : []),
    ...(namespaceIds.length || queues.length ? [`Only ${placeOf(apiKey, names)}`] : []),
  ];
  return (
    <Card title="Details">
      <Facts
        items={[
          { label: "Key", value: <Code>{apiKey.prefix}…</Code> },
          { label: "ID", value: <Code>{apiKey.id}</Code> },
          { label: "Kind", value: kindNames[apiKey.kind] },
          { label: "Owner", value: apiKey.owner },
          { label: "Limits", value: narrowed.length > 0 ? narrowed.join(". ") : "none" },
          { label: "Networks", value: cidrs.length > 0 ? cidrs.join(", ") : "any" },
          { label: "Created", value: <Time at={dateOf(apiKey.createdAt)} /> },
          { label: "Expires", value: <Time at={dateOf(apiKey.expiresAt)} none="never" /> },
          ...(apiKey.revokedAt ? [{ label: "Revoked", value: <Time at={dateOf(apiKey.revokedAt)} /> }] : []),
          { label: "Last used", value: <Time at={dateOf(apiKey.lastUsedAt)} none="never" /> },
        ]}
      />
    </Card>
  );
}

/** The secrets that work: two while the key is rotated. */
function Secrets({ apiKey }: { apiKey: ApiKey }) {
  const { versions, expiresAt } = apiKey;
  return (
    <Card flush title="Secrets" description="A key has two while it is rotated.">
      <Table
        label="Secrets"
        rows={versions}
        rowKey={({ createdAt }) => String(dateOf(createdAt)?.getTime())}
        empty={<p className="px-4 py-4 text-13 text-ink-3">No secret works any more.</p>}
        columns={[
          {
            id: "created",
            header: "Created",
            phone: "title",
            cell: (version) => <Time at={dateOf(version.createdAt)} />,
          },
          {
            id: "expires",
            header: "Expires",
            cell: (version) => <Time at={dateOf(version.expiresAt ?? expiresAt)} none="never" />,
          },
          {
            id: "used",
            header: "Last used",
            cell: (version) => <Time at={dateOf(version.lastUsedAt)} none="never" />,
          },
        ]}
      />
    </Card>
  );
}

/** What a key may do now. */
function Rights({ tenant, apiKey, names }: KeyProps & { tenant: string }) {
  const { effective } = apiKey;
  return (
    <Card
      title="What it can do now"
      action={
        <Link
          to="/$tenant/settings/access"
          params={{ tenant }}
          search={{ tab: "explain", who: apiKey.id }}
          className={buttonClass("secondary", "sm")}
        >
          Explain
        </Link>
      }
    >
      <div className="flex flex-col gap-4">
        {apiKey.stoppedForJobs ? (
          <Banner tone="warn" title="The sign-in policy lets this key do nothing at the tenant URL." />
        ) : null}
        {effective.map((grant) => (
          <section key={placeOf(grant, names)} className="flex flex-col gap-1.5">
            <h3 className="text-13 font-medium first-letter:uppercase">{placeOf(grant, names)}</h3>
            <ul className="flex flex-wrap gap-1">
              {grant.permissions.map((permission) => (
                <li key={permission}>
                  <Badge className="font-mono">{permission}</Badge>
                </li>
              ))}
            </ul>
          </section>
        ))}
        {effective.length === 0 ? (
          <p className="text-13 text-ink-2">
            This key can do nothing: it has ended, or its owner has no roles that its limits leave over.
          </p>
        ) : null}
      </div>
    </Card>
  );
}

/** What the audit log says of a key, and of what was done with it. */
function History({ access, keyId }: { access: Access; keyId: string }) {
  const { tab } = route.useSearch();
  const navigate = useNavigate({ from: "/$tenant/$namespace/keys/$key" });
  const blocked = access.blocked(Permission.AUDIT_READ);
  if (blocked)
    return (
      <EmptyState icon={<ScrollText aria-hidden />} title="You can't view the key's history">
        {blocked}
      </EmptyState>
    );
  return (
    <Tabs
      label="History"
      value={tab ?? "about"}
      onChange={(next) =>
        void navigate({
          search: { tab: next === "did" ? "did" : undefined },
          replace: true,
          resetScroll: false,
        })
      }
      tabs={[
        {
          value: "about",
          label: "What happened to it",
          content: (
            <Entries tenant={access.tenant} filter={{ targetId: keyId }} empty="No entries about this key">
              Changes of this key appear here until the log's retention ends.
            </Entries>
          ),
        },
        {
          value: "did",
          label: "What it did",
          content: (
            <Entries tenant={access.tenant} filter={{ actorId: keyId }} empty="No entries by this key">
              What this key does to queues, jobs and settings appears here within a few seconds.
            </Entries>
          ),
        },
      ]}
    />
  );
}

interface EntriesProps {
  tenant: string;
  filter: AuditFilter;
  empty: string;
  children: string;
}

function Entries({ tenant, filter, empty, children }: EntriesProps) {
  const navigate = useNavigate();
  const events = useInfiniteQuery({ ...adminReads.audit(tenant, filter), ...renewed });
  if (events.error && !events.data)
    return <Problem error={events.error} onRetry={() => void events.refetch()} />;
  const { actorId: actor, targetId: target } = filter;
  return (
    <div className="flex flex-col gap-4">
      <Card flush>
        <Events
          rows={events.data?.pages.flatMap((page) => page.events)}
          more={events.hasNextPage}
          narrow={(change) =>
            void navigate({
              to: "/$tenant/settings/audit",
              params: { tenant },
              search: { actor, target, ...change },
            })
          }
          empty={empty}
        >
          {children}
        </Events>
      </Card>
      <More list={events} />
    </div>
  );
}
