import { Badge } from "~/components/ui/badge";
import { Sync } from "~/gen/corvo/cloud/v1/access_pb";
import type { ApiKey } from "~/gen/corvo/cloud/v1/apikey_pb";
import { dateOf } from "~/lib/proto-time";

/** What is unusual about a key, in a word. */
export function KeyState({ apiKey }: { apiKey: ApiKey }) {
  if (apiKey.revokedAt) return <Badge>revoked</Badge>;
  const ends = dateOf(apiKey.expiresAt);
  if (ends && ends.getTime() < Date.now()) return <Badge tone="danger">expired</Badge>;
  if (apiKey.versions.length > 1) return <Badge tone="warn">2 active secrets</Badge>;
  if (apiKey.sync === Sync.PENDING) return <Badge tone="warn">not active yet</Badge>;
  return null;
}
