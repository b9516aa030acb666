import { Ban, CalendarClock, Plus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { actionsColumn, type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { useChange } from "~/data/admin-queries";
import { directory } from "~/data/directory";
import type { ScimToken } from "~/gen/corvo/cloud/v1/directory_pb";
import { dateOf } from "~/lib/proto-time";
import { living, TOKENS_MAX } from "./state";

const Confirm = lazy(() => import("~/components/confirm"));
const EndDialog = lazy(() => import("./end-dialog"));

interface TokensCardProps {
  tenant: string;
  tokens: readonly ScimToken[];
  blocked: string | undefined;
  onNew: () => void;
}

/** The tokens of a connection's directory: to replace, and to revoke. */
export function TokensCard({ tenant, tokens, blocked, onNew }: TokensCardProps) {
  const [revoking, setRevoking] = useState<ScimToken>();
  const [moving, setMoving] = useState<ScimToken>();
  const revoke = useChange(tenant, (tokenId: string) => directory.revokeScimToken({ tenant, tokenId }), {
    quiet: true,
    done: () => "Token revoked",
  });
  const works = living(tokens);
  const last = revoking && works.every(({ id }) => id === revoking.id);
  return (
    <Card
      flush
      title="Tokens"
      description="To replace a token, create the second one, enter it at your directory, then revoke the first."
      action={
        <Button
          icon={<Plus aria-hidden />}
          blockedBecause={
            blocked ??
            (works.length >= TOKENS_MAX
              ? "A connection can have two tokens. Revoke the one that your directory no longer uses."
              : undefined)
          }
          onClick={onNew}
        >
          New token
        </Button>
      }
    >
      <Table
        label="Tokens"
        rows={tokens}
        rowKey={({ id }) => id}
        columns={columns(blocked, setMoving, setRevoking)}
      />
      <Suspense>
        {moving ? <EndDialog tenant={tenant} token={moving} onClose={() => setMoving(undefined)} /> : null}
        {revoking ? (
          <Confirm
            onClose={() => setRevoking(undefined)}
            title={`Revoke ${revoking.prefix}…?`}
            confirmLabel="Revoke token"
            onConfirm={() => revoke.mutateAsync(revoking.id)}
          >
            {last
              ? "This is the last token that works: directory sync stops. The people and groups that it made stay as they are."
              : "Calls with this token are refused from now on. The other token keeps working."}{" "}
            This can't be undone.
          </Confirm>
        ) : null}
      </Suspense>
    </Card>
  );
}

function columns(
  blocked: string | undefined,
  onMove: (token: ScimToken) => void,
  onRevoke: (token: ScimToken) => void,
): Column<ScimToken>[] {
  return [
    {
      id: "token",
      header: "Token",
      phone: "title",
      cell: (token) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-mono text-12 wrap-anywhere">{token.prefix}…</span>
          {living([token]).length > 0 ? null : <Badge tone="danger">expired</Badge>}
        </span>
      ),
    },
    {
      id: "created",
      header: "Created",
      width: "w-28",
      cell: (token) => <Time at={dateOf(token.createdAt)} className="text-ink-2" />,
    },
    {
      id: "used",
      header: "Last used",
      width: "w-28",
      cell: (token) => <Time at={dateOf(token.lastUsedAt)} none="never" className="text-ink-2" />,
    },
    {
      id: "expires",
      header: "Expires",
      width: "w-28",
      cell: (token) => <Time at={dateOf(token.expiresAt)} className="text-ink-2" />,
    },
    actionsColumn({ width: "w-24", phone: "corner", blockedBecause: blocked }, (token) => [
      {
        label: `Move the end of ${token.prefix}`,
        icon: <CalendarClock aria-hidden />,
        blockedBecause:
          blocked ?? (living([token]).length > 0 ? undefined : "It has expired. Create another one."),
        onClick: () => onMove(token),
      },
      {
        label: `Revoke ${token.prefix}`,
        icon: <Ban aria-hidden />,
        danger: true,
        onClick: () => onRevoke(token),
      },
    ]),
  ];
}
