import { lazy } from "react";
import { Code } from "~/components/ui/code";
import type { Access } from "~/data/access";
import { admin } from "~/data/admin";
import { useChange } from "~/data/admin-queries";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";
import type { NamespaceNames } from "./words";

// Opened on demand, loaded on demand.
const CreateDialog = lazy(() => import("./create-dialog"));
const EditDialog = lazy(() => import("./edit-dialog"));
const RotateDialog = lazy(() => import("./rotate-dialog"));
const SecretDialog = lazy(() => import("./secret-dialog"));
const Confirm = lazy(() => import("~/components/confirm"));

/** Which dialog about keys is open. */
export type Open =
  | { what: "create" }
  | { what: "edit" | "rotate" | "revoke"; key: ApiKey }
  | { what: "secret"; title: string; secret: string };

interface OpenedProps {
  namespace: string;
  access: Access;
  names: NamespaceNames;
  open: Open | undefined;
  setOpen: (open: Open | undefined) => void;
}

/** What is open over a page about keys. */
export function Opened({ namespace, access, names, open, setOpen }: OpenedProps) {
  const { tenant } = access;
  const revoke = useChange(tenant, (keyId: string) => admin.keys.revokeApiKey({ tenant, keyId }), {
    quiet: true,
    done: () => "Key revoked",
  });
  const close = () => setOpen(undefined);
  switch (open?.what) {
    case "create":
      return (
        <CreateDialog
          access={access}
          namespaces={[...names.values()]}
          namespace={namespace}
          onClose={close}
          onCreated={(name, secret) => setOpen({ what: "secret", title: `The key ${name}`, secret })}
        />
      );
    case "edit":
      return <EditDialog tenant={tenant} apiKey={open.key} names={names} onClose={close} />;
    case "rotate":
      return (
        <RotateDialog
          tenant={tenant}
          apiKey={open.key}
          onClose={close}
          onRotated={(secret) =>
            setOpen({ what: "secret", title: `New secret for ${open.key.name}`, secret })
          }
        />
      );
    case "secret":
      return <SecretDialog title={open.title} secret={open.secret} url={access.tenantUrl} onClose={close} />;
    case "revoke":
      return (
        <Confirm
          onClose={close}
          title={`Revoke ${open.key.name}?`}
          confirmLabel="Revoke key"
          onConfirm={() => revoke.mutateAsync(open.key.id)}
        >
          Anything using <Code>{open.key.prefix}…</Code> loses access within a second. This can't be undone.
        </Confirm>
      );
    default:
      return null;
  }
}
