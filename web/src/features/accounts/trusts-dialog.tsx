import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
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
import { dateOf } from "~/lib/proto-time";

interface TrustsDialogProps {
  access: Access;
  account: ServiceAccount;
  onNew: () => void;
  onClose: () => void;
}

/** Whose tokens are exchanged for keys of a service account. */
export default function TrustsDialog({ access, account, onNew, onClose }: TrustsDialogProps) {
  const { tenant } = access;
  const blocked = access.blocked(Permission.SERVICE_ACCOUNT_UPDATE);
  const trusts = useQuery(principalReads.trusts(tenant, account.id));
  const remove = useChange(
    tenant,
    ({ id }: Trust) => principals.trusts.deleteTrust({ tenant, trustId: id }),
    {
      done: () => "Deleted the trust. Its keys are revoked",
    },
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
          <p className="text-13 text-ink-2">
            It has no trusts. Create one for GitHub Actions, GitLab CI or a Kubernetes cluster.
          </p>
        ) : (
          <ul aria-label="Trusts" className="divide-y divide-line rounded-md border border-line">
            {trusts.data.map((trust) => (
              <li key={trust.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2 text-13">
                <span className="font-medium wrap-anywhere">{trust.name}</span>
                <span className="ml-auto text-12 text-ink-2">
                  used <Time at={dateOf(trust.lastUsedAt)} none="never" />
                </span>
                <Button
                  size="sm"
                  variant="danger"
                  icon={<Trash2 aria-hidden />}
                  blockedBecause={blocked}
                  busy={remove.isPending && remove.variables?.id === trust.id}
                  onClick={() => remove.mutate(trust)}
                >
                  Delete trust
                </Button>
                <span className="w-full text-12 wrap-anywhere text-ink-3">
                  {trust.issuer} for {trust.audience}
                </span>
                {trust.conditions.map(({ claim, values }) => (
                  <span key={claim} className="w-full font-mono text-12 wrap-anywhere text-ink-2">
                    {claim} = {values.join(" or ")}
                  </span>
                ))}
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
