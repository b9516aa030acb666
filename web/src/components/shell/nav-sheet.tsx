import { Dialog } from "~/components/ui/dialog";
import type { Access } from "~/data/access";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";
import { SideNav } from "./nav";
import { TenantSwitcher } from "./switchers";

interface NavSheetProps {
  onClose: () => void;
  tenant: string;
  namespace: string;
  tenants: readonly TenantAccess[];
  access: Access;
}

/** The whole navigation on a phone. */
export default function NavSheet({ onClose, tenant, namespace, tenants, access }: NavSheetProps) {
  return (
    <Dialog open onOpenChange={onClose} title="Menu">
      <TenantSwitcher tenant={tenant} tenants={tenants} />
      <div className="pb-4">
        <SideNav tenant={tenant} namespace={namespace} access={access} onNavigate={onClose} />
      </div>
    </Dialog>
  );
}
