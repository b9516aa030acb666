import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { Badge } from "~/components/ui/badge";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { adminReads } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import { reads } from "~/data/queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { dateOf } from "~/lib/proto-time";

interface KeysDialogProps {
  access: Access;
  account: ServiceAccount;
  onNew: () => void;
  onClose: () => void;
}

/** The keys of a service account. They are rotated and revoked on the page of all keys. */
export default function KeysDialog({ access, account, onNew, onClose }: KeysDialogProps) {
  const blocked = access.blocked(Permission.KEY_READ);
  const keys = useQuery({ ...adminReads.keys(access.tenant, false, account.id), enabled: !blocked });
  const namespace = useQuery(reads.namespaces(access.tenant)).data?.[0]?.name;
  return (
    <Dialog
      open
      size="md"
      onOpenChange={onClose}
      title={`Keys of ${account.name}`}
      footer={
        <>
          <Button
            icon={<Plus aria-hidden />}
            blockedBecause={access.blocked(Permission.KEY_CREATE)}
            onClick={onNew}
          >
            New key
          </Button>
          <Button variant="primary" onClick={onClose}>
            Close
          </Button>
        </>
      }
    >
      {blocked ? <Banner tone="warn" title={blocked} /> : null}
      {keys.error ? <Banner tone="danger" title={describeError(keys.error)} /> : null}
      {keys.data ? (
        keys.data.length === 0 ? (
          <p className="text-13 text-ink-2">It has no keys that work. Create one for the program to use.</p>
        ) : (
          <ul aria-label="Keys" className="divide-y divide-line rounded-md border border-line">
            {keys.data.map((key) => {
              const ends = dateOf(key.expiresAt);
              return (
                <li key={key.id} className="flex flex-wrap items-baseline gap-x-3 px-3 py-2 text-13">
                  <span className="font-medium wrap-anywhere">{key.name}</span>
                  <span className="font-mono text-12 text-ink-3">{key.prefix}…</span>
                  {ends && ends.getTime() < Date.now() ? <Badge tone="danger">expired</Badge> : null}
                  <span className="ml-auto text-12 text-ink-2">
                    used <Time at={dateOf(key.lastUsedAt)} none="never" />, expires{" "}
                    <Time at={ends} none="never" />
                  </span>
                </li>
              );
            })}
          </ul>
        )
      ) : blocked || keys.error ? null : (
        <SkeletonRows rows={2} columns={2} label="Loading keys" />
      )}
      {namespace && keys.data?.length ? (
        <p className="text-13 text-ink-2">
          Edit, rotate and revoke them on the page of all{" "}
          <Link
            to="/$tenant/$namespace/keys"
            params={{ tenant: access.tenant, namespace }}
            className="font-medium text-accent-text underline-offset-2 hover:underline"
          >
            API keys
          </Link>
          .
        </p>
      ) : null}
    </Dialog>
  );
}
