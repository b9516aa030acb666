import type { PermissionInfo } from "~/gen/corvo/cloud/v1/role_pb";

// What permissions are about, in the order in which people look for them. The first word of a
// permission says it, but for one that is made where it stands: a namespace in the tenant.
const subjects: readonly { title: string; of: readonly string[] }[] = [
  { title: "Jobs", of: ["job", "payload", "event"] },
  { title: "Queues", of: ["queue"] },
  { title: "Schedules", of: ["schedule"] },
  { title: "Namespaces", of: ["namespace", "worker", "usage", "budget", "approval", "activity", "server"] },
  { title: "People and groups", of: ["member", "group", "session"] },
  { title: "Roles and access", of: ["role", "access"] },
  { title: "Service accounts and keys", of: ["service_account", "key"] },
  { title: "Sign-in", of: ["sso", "domain", "directory", "policy"] },
  { title: "Audit log", of: ["audit"] },
  { title: "Tenant and billing", of: ["tenant", "billing"] },
];

const others = "Others";

export interface Subject {
  title: string;
  permissions: PermissionInfo[];
}

/** Permissions by what they are about; none is left out, also one that this page doesn't know. */
export function bySubject(permissions: readonly PermissionInfo[]): Subject[] {
  const titleOf = ({ name }: PermissionInfo) =>
    subjects.find(({ of }) => of.includes(name.split(".")[0] ?? ""))?.title ?? others;
  return [...subjects.map(({ title }) => title), others]
    .map((title) => ({ title, permissions: permissions.filter((info) => titleOf(info) === title) }))
    .filter((subject) => subject.permissions.length > 0);
}

/** Where a permission can be given, if that is not everywhere. */
export function reachOf({ level }: Pick<PermissionInfo, "level">): string {
  if (level === "tenant") return "In the whole tenant only.";
  return level === "namespace" ? "Not for single queues." : "";
}
