import { useQuery } from "@tanstack/react-query";
import { PermissionPicker } from "~/components/access/permission-picker";
import { holdersOf } from "~/components/access/place";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Dialog } from "~/components/ui/dialog";
import { roleName } from "~/data/access";
import { describeError } from "~/data/control";
import { principalReads } from "~/data/principal-queries";
import type { Role } from "~/gen/corvo/cloud/v1/role_pb";

interface ViewDialogProps {
  tenant: string;
  role: Role;
  onClose: () => void;
}

/** What a role allows, and who has it. */
export default function ViewDialog({ tenant, role, onClose }: ViewDialogProps) {
  const bindings = useQuery(principalReads.bindings(tenant, { roleId: role.id }));
  const holders = holdersOf(bindings.data ?? []);
  return (
    <Dialog
      open
      size="lg"
      onOpenChange={onClose}
      title={roleName(role.name)}
      description={role.description}
      footer={<Button onClick={onClose}>Close</Button>}
    >
      {bindings.error ? <Banner tone="danger" title={describeError(bindings.error)} /> : null}
      {bindings.data ? (
        <section className="text-13">
          <h3 className="font-medium">Who has it</h3>
          {holders.length === 0 ? <p className="text-ink-2">Nobody has this role.</p> : null}
          <ul>
            {holders.map(({ principal, places }) => (
              <li key={principal} className="wrap-anywhere text-ink-2">
                <span className="font-medium text-ink">{principal}</span> {places.join(", ")}
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <PermissionPicker readOnly value={role.permissions} onChange={() => {}} />
    </Dialog>
  );
}
