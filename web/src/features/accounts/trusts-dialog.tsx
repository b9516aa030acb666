import { useQuery } from "@tanstack/react-query";
import { Pencil, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import Confirm from "~/components/confirm";
import { Banner } from "~/components/ui/banner";
import { Button, IconButton } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { Dialog } from "~/components/ui/dialog";
import { SkeletonRows } from "~/components/ui/skeleton";
import { Time } from "~/components/ui/time";
import type { Access } from "~/data/access";
import { useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import { principals } from "~/data/principals";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import type { Trust } from "~/gen/corvo/cloud/v1/exchange_pb";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { shellQuote } from "~/lib/equivalents";
import { dateOf } from "~/lib/proto-time";
import TrustDialog from "./trust-dialog";
import { usageOf } from "./trusts";

interface TrustsDialogProps {
  access: Access;
  account: ServiceAccount;
  /** One that was just made: how to use it is shown first. */
  made?: Trust | undefined;
  onNew: () => void;
  onClose: () => void;
}

/** Whose tokens are exchanged for keys of a service account. */
export default function TrustsDialog({ access, account, made, onNew, onClose }: TrustsDialogProps) {
  const { tenant } = access;
  const blocked = access.blocked(Permission.SERVICE_ACCOUNT_UPDATE);
  const trusts = useQuery(principalReads.trusts(tenant, account.id));
  const remove = useChange(
    tenant,
    ({ id }: Trust) => principals.trusts.deleteTrust({ tenant, trustId: id }),
    { quiet: true, done: () => "Deleted the trust. Its keys are revoked" },
  );
  const [used, setUsed] = useState(made);
  const [editing, setEditing] = useState<Trust>();
  const [deleting, setDeleting] = useState<Trust>();
  if (used) return <UseDialog access={access} trust={used} onClose={() => setUsed(undefined)} />;
  if (editing) {
    const close = () => setEditing(undefined);
    return <TrustDialog access={access} account={account} trust={editing} onClose={close} onSaved={close} />;
  }
  if (deleting)
    return (
      <Confirm
        onClose={() => setDeleting(undefined)}
        title={`Delete the trust ${deleting.name}?`}
        confirmLabel="Delete trust"
        onConfirm={() => remove.mutateAsync(deleting)}
      >
        Its tokens are no longer accepted, and the keys that it gave stop working at once. This can't be
        undone.
      </Confirm>
    );
  return (
    <Dialog
      open
      size="md"
      onOpenChange={onClose}
      title={`Trusts of ${account.name}`}
      description="CI jobs and pods that get a key for some minutes, without a stored one."
      footer={
        <>
          <Button icon={<Plus aria-hidden />} blockedBecause={blocked} onClick={onNew}>
            New trust
          </Button>
          <Button variant="primary" onClick={onClose}>
            Close
          </Button>
        </>
      }
    >
      {trusts.error ? <Banner tone="danger" title={describeError(trusts.error)} /> : null}
      {trusts.data ? (
        trusts.data.length === 0 ? (
          <div className="flex flex-col gap-3 text-13 text-ink-2">
            <p>It has no trusts. Create one for GitHub Actions, GitLab CI or a Kubernetes cluster.</p>
            <CodeBlock
              wrap
              language="shell"
              label="Command"
              code={`corvo trusts create web --service-account ${shellQuote(account.name)} --github acme/web`}
            />
          </div>
        ) : (
          <ul aria-label="Trusts" className="divide-y divide-line rounded-md border border-line">
            {trusts.data.map((trust) => (
              <li key={trust.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2 text-13">
                <span className="font-medium wrap-anywhere">{trust.name}</span>
                <span className="ml-auto text-12 text-ink-2">
                  used <Time at={dateOf(trust.lastUsedAt)} none="never" />
                </span>
                <Button size="sm" aria-label={`How to use ${trust.name}`} onClick={() => setUsed(trust)}>
                  How to use
                </Button>
                <IconButton
                  size="sm"
                  label={`Edit ${trust.name}`}
                  blockedBecause={blocked}
                  onClick={() => setEditing(trust)}
                >
                  <Pencil aria-hidden />
                </IconButton>
                <IconButton
                  size="sm"
                  variant="danger-ghost"
                  label={`Delete ${trust.name}`}
                  blockedBecause={blocked}
                  onClick={() => setDeleting(trust)}
                >
                  <Trash2 aria-hidden />
                </IconButton>
                <span className="w-full text-12 wrap-anywhere text-ink-3">
                  {trust.issuer}, audience {trust.audience}
                </span>
                {trust.conditions.map(({ claim, values }) => (
                  <span key={claim} className="w-full font-mono text-12 wrap-anywhere text-ink-2">
                    {claim} = {values.join(" or ")}
                  </span>
                ))}
                <span className="w-full text-12 wrap-anywhere text-ink-2">{givenBy(trust)}</span>
              </li>
            ))}
          </ul>
        )
      ) : trusts.error ? null : (
        <SkeletonRows rows={2} columns={2} label="Loading trusts" />
      )}
    </Dialog>
  );
}

/** What the keys of a trust are. */
function givenBy({ keyLifeSeconds, permissions, queues, cidrs, namespaceIds }: Trust): string {
  const limited = [permissions, queues, cidrs, namespaceIds].some((list) => list.length > 0);
  return `Gives keys for ${Number(keyLifeSeconds) / 60} min${limited ? ", with limits" : ""}`;
}

interface UseDialogProps {
  access: Access;
  trust: Trust;
  onClose: () => void;
}

/** What a job or pod does to get its key. */
function UseDialog({ access, trust, onClose }: UseDialogProps) {
  const { tenant, tenantUrl } = access;
  return (
    <Dialog
      open
      size="md"
      onOpenChange={onClose}
      title={`How to use ${trust.name}`}
      description="There is no secret in it, so it can be committed."
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <CodeBlock
        label="Configuration"
        code={usageOf(trust, { tenant, tenantUrl, endpoint: window.location.origin })}
      />
    </Dialog>
  );
}
