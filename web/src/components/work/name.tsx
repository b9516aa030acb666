import { useQuery } from "@tanstack/react-query";
import { useRouteContext } from "@tanstack/react-router";
import { adminReads } from "~/data/admin-queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";

// What jobs put before the id of a person; a key is its id alone.
const PERSON = "user:";

/** A key or a person by name, as far as the viewer may see keys and members; else the id. */
export default function Name({ id }: { id: string }) {
  const { access } = useRouteContext({ from: "/$tenant" });
  const keys = useQuery({
    ...adminReads.keys(access.tenant, true),
    enabled: id.startsWith("key_") && access.can(Permission.KEY_READ),
  });
  const members = useQuery({
    ...adminReads.members(access.tenant),
    enabled: id.startsWith(PERSON) && access.can(Permission.MEMBER_READ),
  });
  const name =
    keys.data?.find((key) => key.id === id)?.name ??
    members.data?.find((one) => PERSON + one.userId === id)?.email;
  return name ? <span title={id}>{name}</span> : id;
}
