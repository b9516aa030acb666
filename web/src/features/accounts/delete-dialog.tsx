import Confirm from "~/components/confirm";
import { useChange } from "~/data/admin-queries";
import { principals } from "~/data/principals";
import type { ServiceAccount } from "~/gen/corvo/cloud/v1/principal_pb";
import { plural } from "~/lib/numbers";

interface DeleteDialogProps {
  tenant: string;
  account: ServiceAccount;
  onClose: () => void;
}

/** Deletes a service account with its keys. */
export default function DeleteDialog({ tenant, account, onClose }: DeleteDialogProps) {
  const remove = useChange(
    tenant,
    () =>
      principals.accounts.deleteServiceAccount({
        tenant,
        serviceAccountId: account.id,
        revokeKeys: account.keys > 0,
      }),
    { quiet: true, done: () => `Deleted ${account.name}` },
  );
  return (
    <Confirm
      onClose={onClose}
      title={`Delete ${account.name}?`}
      confirmLabel={account.keys > 0 ? "Delete and revoke keys" : "Delete service account"}
      {...(account.keys > 0 ? { typeToConfirm: account.name } : {})}
      onConfirm={() => remove.mutateAsync(undefined)}
    >
      {account.keys > 0
        ? `This revokes its ${plural(account.keys, "key")}: programs that use them lose access within a second.`
        : "It has no keys that work."}{" "}
      Its roles go with it. This can't be undone.
    </Confirm>
  );
}
