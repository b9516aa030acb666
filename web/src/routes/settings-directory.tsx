import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate, useRouteContext } from "@tanstack/react-router";
import { FolderSync } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Problem } from "~/components/problem";
import { useCopyAs } from "~/components/shell/copy-as";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { Card, Facts } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { Code, CodeBlock } from "~/components/ui/code";
import { CopyButton } from "~/components/ui/copy";
import { EmptyState } from "~/components/ui/empty";
import { Field } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { type Access, roleName } from "~/data/access";
import { adminReads } from "~/data/admin-queries";
import { directoryReads } from "~/data/directory";
import { directories } from "~/features/directory/directories";
import { GroupsCard } from "~/features/directory/groups-card";
import { living, looks, stateOf } from "~/features/directory/state";
import { TokensCard } from "~/features/directory/tokens-card";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { DirectorySync, ScimToken } from "~/gen/corvo/cloud/v1/directory_pb";
import type { SsoConnection } from "~/gen/corvo/cloud/v1/sso_pb";
import { directoryEquivalents, firstDirectory } from "~/lib/directory-equivalents";
import { plural } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";

// Opened on demand, loaded on demand.
const TokenDialog = lazy(() => import("~/features/directory/token-dialog"));

const linkClass = "font-medium text-accent-text underline-offset-2 hover:underline";

const route = getRouteApi("/$tenant/settings/directory");

/** People and groups that a company's directory keeps, by SCIM. */
export function DirectoryPage() {
  const { tenant } = route.useParams();
  const { connection: wanted } = route.useSearch();
  const { access } = useRouteContext({ from: "/$tenant" });
  const navigate = useNavigate({ from: "/$tenant/settings/directory" });
  const unreadable = access.blocked(Permission.SSO_READ);
  const connections = useQuery({ ...adminReads.connections(tenant), enabled: !unreadable });
  const connection = connections.data?.find(({ id }) => id === wanted) ?? connections.data?.[0];
  useCopyAs(connection ? directoryEquivalents(tenant, connection.id) : null);
  return (
    <Page
      width="text"
      description="Let Okta, Microsoft Entra ID or another directory add and remove people and groups here, by SCIM 2.0."
    >
      {unreadable ? (
        <EmptyState icon={<FolderSync aria-hidden />} title="You can't view directory sync">
          {unreadable}
        </EmptyState>
      ) : connections.error && !connections.data ? (
        <Problem error={connections.error} onRetry={() => void connections.refetch()} />
      ) : !connections.data ? (
        <SkeletonRows rows={5} columns={2} label="Loading directory sync" />
      ) : connection ? (
        <>
          {connections.data.length > 1 ? (
            <Field label="Connection" className="sm:w-1/2">
              <Choice
                options={connections.data.map(({ id, name }) => ({ value: id, label: name }))}
                value={connection.id}
                onChange={(id) => void navigate({ search: { connection: id }, replace: true })}
              />
            </Field>
          ) : null}
          <Directory key={connection.id} access={access} connection={connection} />
        </>
      ) : (
        <EmptyState
          icon={<FolderSync aria-hidden />}
          title="Set up single sign-on first"
          action={
            <Link to="/$tenant/settings/sso" params={{ tenant }} className={buttonClass("primary")}>
              Set up single sign-on
            </Link>
          }
          snippet={<CodeBlock language="shell" label="Commands" code={firstDirectory(tenant)} />}
        >
          People whom your directory sends sign in through your identity provider, so directory sync belongs
          to a connection with it. The connection doesn't have to be turned on yet.
        </EmptyState>
      )}
    </Page>
  );
}

interface DirectoryProps {
  access: Access;
  connection: SsoConnection;
}

function Directory({ access, connection }: DirectoryProps) {
  const { tenant } = access;
  const blocked = access.blocked(Permission.DIRECTORY_UPDATE);
  const sync = useQuery(directoryReads.sync(tenant, connection.id));
  const tokens = useQuery(directoryReads.tokens(tenant, connection.id));
  const [creating, setCreating] = useState(false);
  if (!sync.data || !tokens.data) {
    const error = sync.error ?? tokens.error;
    if (!error) return <SkeletonRows rows={5} columns={2} label="Loading directory sync" />;
    return (
      <Problem
        error={error}
        onRetry={() => {
          void sync.refetch();
          void tokens.refetch();
        }}
      />
    );
  }
  const used = tokens.data.length > 0 || sync.data.users + sync.data.groups > 0;
  return (
    <>
      <StateCard
        access={access}
        connection={connection}
        sync={sync.data}
        tokens={tokens.data}
        action={
          living(tokens.data).length > 0 ? null : (
            <Button variant="primary" blockedBecause={blocked} onClick={() => setCreating(true)}>
              Turn on
            </Button>
          )
        }
      />
      {tokens.data.length > 0 ? (
        <TokensCard tenant={tenant} tokens={tokens.data} blocked={blocked} onNew={() => setCreating(true)} />
      ) : null}
      {used ? <GroupsCard access={access} connectionId={connection.id} /> : null}
      <GuideCard endpoint={sync.data.endpointUrl} />
      <Suspense>
        {creating ? (
          <TokenDialog
            tenant={tenant}
            connectionId={connection.id}
            endpoint={sync.data.endpointUrl}
            second={living(tokens.data).length > 0}
            onClose={() => setCreating(false)}
          />
        ) : null}
      </Suspense>
    </>
  );
}

interface StateCardProps extends DirectoryProps {
  sync: DirectorySync;
  tokens: readonly ScimToken[];
  action: ReactNode;
}

/** Whether it works, and what has come. */
function StateCard({ access, connection, sync, tokens, action }: StateCardProps) {
  const { tenant } = access;
  const state = stateOf(sync, tokens);
  return (
    <Card
      title={
        <span className="flex flex-wrap items-center gap-2">
          <span className="wrap-anywhere">{connection.name}</span>
          <Badge tone={looks[state].tone}>{looks[state].word}</Badge>
        </span>
      }
      description={looks[state].about}
      action={action}
    >
      <div className="flex flex-col gap-4">
        {sync.lastErrorAt ? (
          <Banner
            tone={state === "refused" ? "warn" : "info"}
            title={
              <>
                Last refused call, <Time at={dateOf(sync.lastErrorAt)} />
              </>
            }
          >
            {sync.lastError}
          </Banner>
        ) : null}
        <Facts
          items={[
            ...(state === "off" ? [] : came(tenant, sync)),
            {
              label: "Default role",
              value: connection.defaultRole
                ? `${roleName(connection.defaultRole)}, for every active person`
                : "None: people get the roles of their groups only",
            },
          ]}
        />
      </div>
    </Card>
  );
}

/** What the directory has sent. */
function came(tenant: string, sync: DirectorySync) {
  return [
    {
      label: "People",
      value: (
        <>
          {plural(sync.users, "user")}, {sync.activeUsers} active.{" "}
          <Link to="/$tenant/settings/members" params={{ tenant }} className={linkClass}>
            Members
          </Link>
        </>
      ),
    },
    { label: "Groups", value: plural(sync.groups, "group") },
    { label: "Last call", value: <Time at={dateOf(sync.lastCallAt)} none="never" /> },
  ];
}

/** What to do at the directory. */
function GuideCard({ endpoint }: { endpoint: string }) {
  const [chosen, setChosen] = useState("");
  const there = directories.find(({ value }) => value === chosen) ?? directories[0];
  const url = endpoint + (there?.suffix ?? "");
  return (
    <Card
      title="At your directory"
      description="Create a token above, then enter it there with the base URL."
    >
      <div className="flex flex-col gap-4">
        <Field label="Directory" className="sm:w-1/2">
          <Choice
            options={directories.map(({ value, label }) => ({ value, label }))}
            value={chosen}
            onChange={setChosen}
          />
        </Field>
        <Facts
          items={[
            {
              label: "Base URL",
              value: (
                <span className="inline-flex max-w-full items-center gap-1">
                  <Code>{url}</Code>
                  <CopyButton text={url} label="Copy base URL" />
                </span>
              ),
            },
          ]}
        />
        <ol className="ml-4 list-decimal text-13 text-ink-2">
          {there?.steps.map((step) => (
            <li key={step} className="mb-1">
              {step}
            </li>
          ))}
        </ol>
        <p className="text-13 text-ink-2">
          Keep an owner who isn't in the directory: it can't deactivate or delete the last one.
        </p>
      </div>
    </Card>
  );
}
