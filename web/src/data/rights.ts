import { useQuery } from "@tanstack/react-query";
import { useRouteContext } from "@tanstack/react-router";
import type { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type Access, nameOf } from "./access";
import { reads } from "./queries";
import type { MintedRights, Scope } from "./token";

/** What the signed-in user may do in one namespace. */
export interface Rights {
  /** Why a control is off. Without a queue it is enough to have the permission in one. */
  blocked: (permission: Permission, queue?: string) => string | undefined;
}

/** Until the token is there, what they may in the whole tenant is all that is known. */
export function rightsOf(access: Access, minted: MintedRights | undefined): Rights {
  const allows = (permission: Permission, queue: string | undefined) => {
    if (!minted) return access.can(permission);
    const name = nameOf(permission);
    if (minted.permissions.includes(name)) return true;
    return minted.inQueues.some(
      (grant) =>
        grant.permissions.includes(name) &&
        (queue === undefined || grant.queues.some((pattern) => matches(pattern, queue))),
    );
  };
  return {
    blocked: (permission, queue) => (allows(permission, queue) ? undefined : access.refusal(permission)),
  };
}

/** A pattern is a name, or a beginning and *. */
function matches(pattern: string, queue: string): boolean {
  return pattern.endsWith("*") ? queue.startsWith(pattern.slice(0, -1)) : queue === pattern;
}

/** The rights of the page's user in its namespace, by the token that the page works with. */
export function useRights(scope: Scope): Rights {
  const { access } = useRouteContext({ from: "/$tenant" });
  return rightsOf(access, useQuery(reads.rights(scope)).data);
}
