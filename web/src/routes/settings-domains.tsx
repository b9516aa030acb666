import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useRouteContext } from "@tanstack/react-router";
import { Globe, Plus, RefreshCw, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { Code, CodeBlock } from "~/components/ui/code";
import { CopyButton } from "~/components/ui/copy";
import { EmptyState } from "~/components/ui/empty";
import { Field } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { adminReads, useChange } from "~/data/admin-queries";
import { describeError, sentence } from "~/data/control";
import { domainReads, domains } from "~/data/domains";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type Domain, DomainState } from "~/gen/corvo/cloud/v1/domain_pb";
import type { SsoConnection } from "~/gen/corvo/cloud/v1/sso_pb";
import { domainsEquivalents } from "~/lib/domain-equivalents";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const Confirm = lazy(() => import("~/components/confirm"));
const DomainDialog = lazy(() => import("~/features/sso/domain-dialog"));

/** Domains whose people sign in through the tenant's identity provider. */
export function DomainsPage() {
  const { tenant } = useParams({ from: "/$tenant" });
  const { access } = useRouteContext({ from: "/$tenant" });
  const unreadable = access.blocked(Permission.SSO_READ);
  const blocked = access.blocked(Permission.DOMAIN_UPDATE);
  const all = useQuery({ ...domainReads.all(tenant), enabled: !unreadable });
  const connections = useQuery({ ...adminReads.connections(tenant), enabled: !unreadable });
  const [adding, setAdding] = useState(false);
  useCopyAs(domainsEquivalents(tenant));
  const add = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      blockedBecause={blocked}
      onClick={() => setAdding(true)}
    >
      Add domain
    </Button>
  );
  return (
    <Page
      width="text"
      description="Send people with an email address of your domain to your identity provider when they sign in."
      actions={add}
    >
      {unreadable ? (
        <EmptyState icon={<Globe aria-hidden />} title="You can't view domains">
          {unreadable}
        </EmptyState>
      ) : all.error && !all.data ? (
        <Problem error={all.error} onRetry={() => void all.refetch()} />
      ) : !all.data ? (
        <SkeletonRows rows={3} columns={2} label="Loading domains" />
      ) : all.data.length === 0 ? (
        <EmptyState
          icon={<Globe aria-hidden />}
          title="No domains yet"
          action={add}
          snippet={
            <CodeBlock language="shell" label="Commands" code={domainsEquivalents(tenant).cli ?? ""} />
          }
        >
          Add your company's domain and prove it with a TXT record. The sign-in page then offers single
          sign-on to everyone with an address of the domain.
        </EmptyState>
      ) : (
        all.data.map((domain) => (
          <DomainCard
            key={domain.id}
            tenant={tenant}
            domain={domain}
            connections={connections.data ?? []}
            blocked={blocked}
          />
        ))
      )}
      <Suspense>{adding ? <DomainDialog tenant={tenant} onClose={() => setAdding(false)} /> : null}</Suspense>
    </Page>
  );
}

const looks: Record<DomainState, { tone: "neutral" | "ok" | "warn"; word: string }> = {
  [DomainState.UNSPECIFIED]: { tone: "neutral", word: "unknown" },
  [DomainState.PENDING]: { tone: "neutral", word: "not verified" },
  [DomainState.VERIFIED]: { tone: "ok", word: "verified" },
  [DomainState.RECORD_MISSING]: { tone: "warn", word: "record missing" },
};

interface DomainCardProps {
  tenant: string;
  domain: Domain;
  connections: readonly SsoConnection[];
  blocked: string | undefined;
}

function DomainCard({ tenant, domain, connections, blocked }: DomainCardProps) {
  const domainId = domain.id;
  const [deleting, setDeleting] = useState(false);
  const verify = useChange(tenant, () => domains.verifyDomain({ tenant, domainId }), {
    quiet: true,
    done: (answer) => `${answer.domain?.name} is verified`,
  });
  const remove = useChange(tenant, () => domains.deleteDomain({ tenant, domainId }), {
    quiet: true,
    done: () => `Deleted ${domain.name}`,
  });
  const { tone, word } = looks[domain.state];
  const verified = domain.state === DomainState.VERIFIED;
  return (
    <Card
      title={
        <span className="flex flex-wrap items-center gap-2">
          <span className="wrap-anywhere">{domain.name}</span>
          <Badge tone={tone}>{word}</Badge>
        </span>
      }
      description={
        domain.checkedAt ? (
          <>
            DNS checked <Time at={dateOf(domain.checkedAt)} />
          </>
        ) : (
          "Add this TXT record to your DNS, then verify."
        )
      }
      action={
        <span className="flex flex-wrap gap-2">
          <Button
            variant="danger-ghost"
            icon={<Trash2 aria-hidden />}
            blockedBecause={blocked}
            onClick={() => setDeleting(true)}
          >
            Delete
          </Button>
          <Button
            variant={verified ? "secondary" : "primary"}
            icon={<RefreshCw aria-hidden />}
            busy={verify.isPending}
            blockedBecause={blocked}
            onClick={() => verify.mutate(undefined)}
          >
            {verified ? "Check again" : "Verify"}
          </Button>
        </span>
      }
    >
      <div className="flex flex-col gap-4">
        {domain.unverifiedAt ? (
          <Banner tone="warn" title="Its TXT record is missing">
            Add it again. The domain stops being verified <Time at={dateOf(domain.unverifiedAt)} />.
          </Banner>
        ) : null}
        {verify.error ? (
          <Banner tone="danger" title={describeError(verify.error)} />
        ) : domain.problem && !domain.unverifiedAt ? (
          <Banner tone="warn" title={sentence(domain.problem)} />
        ) : null}
        <Facts
          items={[
            { label: "Type", value: "TXT" },
            { label: "Name", value: <Copyable text={domain.txtName} /> },
            { label: "Value", value: <Copyable text={domain.txtValue} /> },
          ]}
        />
        <ConnectionChoice tenant={tenant} domain={domain} connections={connections} blocked={blocked} />
      </div>
      <Suspense>
        {deleting ? (
          <Confirm
            onClose={() => setDeleting(false)}
            title={`Delete ${domain.name}?`}
            confirmLabel="Delete domain"
            onConfirm={() => remove.mutateAsync(undefined)}
          >
            The sign-in page stops offering single sign-on to its people. To add the domain again, you'll need
            a new TXT record.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );
}

const ANY = "";

/** The connection that people of the domain sign in through, saved when it is chosen. */
function ConnectionChoice({ tenant, domain, connections, blocked }: DomainCardProps) {
  const choose = useChange(
    tenant,
    (connectionId: string) =>
      domains.updateDomain({
        tenant,
        domainId: domain.id,
        connectionId,
        etag: domain.etag,
        updateMask: { paths: ["connection_id"] },
      }),
    { quiet: true, done: () => `Saved the connection of ${domain.name}` },
  );
  const chosen = choose.isPending ? choose.variables : domain.connectionId;
  const off = connections.find(({ id }) => id === chosen)?.enabled === false;
  const none = connections.every(({ enabled }) => !enabled);
  return (
    <div className="flex flex-col gap-3">
      <Field
        label="People sign in through"
        className="sm:w-1/2"
        hint={blocked}
        error={choose.error ? describeError(choose.error) : undefined}
      >
        <Choice
          options={[
            {
              value: ANY,
              label: connections.length > 1 ? "Any connection that is on" : "The tenant's connection",
              ...(connections.length > 1 ? { description: "With several of them, people choose one." } : {}),
            },
            ...connections.map(({ id, name, enabled }) => ({
              value: id,
              label: enabled ? name : `${name} (off)`,
            })),
          ]}
          value={chosen}
          onChange={(next) => choose.mutate(next)}
          disabled={blocked !== undefined || choose.isPending}
        />
      </Field>
      {off || none ? (
        <p className="text-13 text-ink-2">
          Until {off ? "this connection" : "a connection"} is on, people of the domain sign in by email.{" "}
          <Link
            to="/$tenant/settings/sso"
            params={{ tenant }}
            className="font-medium text-accent-text underline-offset-2 hover:underline"
          >
            Single sign-on
          </Link>
        </p>
      ) : null}
    </div>
  );
}

function Copyable({ text }: { text: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <Code>{text}</Code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </span>
  );
}
