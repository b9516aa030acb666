import { useQuery } from "@tanstack/react-query";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Facts } from "~/components/ui/card";
import { Code } from "~/components/ui/code";
import { Dialog } from "~/components/ui/dialog";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import { adminReads } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";
import { dateOf } from "~/lib/proto-time";
import { kindNames, type NamespaceNames, placeOf } from "./words";

interface RightsDialogProps {
  tenant: string;
  apiKey: ApiKey;
  names: NamespaceNames;
  onClose: () => void;
}

/** What a key may do now, whose it is, and what narrows it. */
export default function RightsDialog({ tenant, apiKey, names, onClose }: RightsDialogProps) {
  const whole = useQuery(adminReads.key(tenant, apiKey.id));
  const effective = whole.data?.effective;
  const { permissions, queues, cidrs, namespaceIds } = apiKey;
  const narrowed = [
    ...(permissions.length ? [`Only ${permissions.join(", ")}`] : []),
    ...(namespaceIds.length || queues.length ? [`Only ${placeOf(apiKey, names)}`] : []),
  ];
  return (
    <Dialog
      open
      readable
      size="md"
      onOpenChange={onClose}
      title={`What ${apiKey.name} can do`}
      description={`A key can do what its owner, ${apiKey.owner}, can, narrowed by its own limits.`}
      footer={<Button onClick={onClose}>Close</Button>}
    >
      <Facts
        items={[
          { label: "Key", value: <Code>{apiKey.prefix}…</Code> },
          { label: "Kind", value: kindNames[apiKey.kind] },
          { label: "Owner", value: apiKey.owner },
          { label: "Limits", value: narrowed.length > 0 ? narrowed.join(". ") : "none" },
          { label: "Networks", value: cidrs.length > 0 ? cidrs.join(", ") : "any" },
          { label: "Created", value: <Time at={dateOf(apiKey.createdAt)} /> },
          { label: "Last used", value: <Time at={dateOf(apiKey.lastUsedAt)} none="never" /> },
          ...(apiKey.versions.length > 1 ? apiKey.versions : []).map((version, i) => ({
            label: i === 0 ? "Old secret" : "New secret",
            value: (
              <>
                last used <Time at={dateOf(version.lastUsedAt)} none="never" />
              </>
            ),
          })),
        ]}
      />
      {whole.error ? <Banner tone="danger" title={describeError(whole.error)} /> : null}
      {whole.isPending ? <SkeletonRows rows={2} columns={2} label="Loading permissions" /> : null}
      {whole.data?.stoppedForJobs ? (
        <Banner tone="warn" title="The sign-in policy lets this key do nothing at the tenant URL." />
      ) : null}
      {effective?.map((grant) => (
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
      {effective?.length === 0 ? (
        <p className="text-13 text-ink-2">
          This key can do nothing: it has ended, or its owner has no roles that its limits leave over.
        </p>
      ) : null}
    </Dialog>
  );
}
