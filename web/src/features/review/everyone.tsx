import type { UseQueryResult } from "@tanstack/react-query";
import { CircleCheck, Download } from "lucide-react";
import { Problem } from "~/components/problem";
import { Badge } from "~/components/ui/badge";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { EmptyState } from "~/components/ui/empty";
import { Switch } from "~/components/ui/switch";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { roleName } from "~/data/access";
import type { ReviewedPrincipal } from "~/gen/corvo/cloud/v1/review_pb";
import { count } from "~/lib/numbers";
import { dateOf } from "~/lib/proto-time";
import { reviewCsv, typeNames } from "./words";

interface EveryoneProps {
  tenant: string;
  review: UseQueryResult<ReviewedPrincipal[]>;
  unused: boolean;
  onUnused: (unused: boolean) => void;
}

/** Everybody and every machine, with what they have and when they last used it. */
export function Everyone({ tenant, review, unused, onUnused }: EveryoneProps) {
  if (review.error) return <Problem error={review.error} onRetry={() => void review.refetch()} />;
  const idle = review.data?.filter((row) => row.unused).length ?? 0;
  const rows = unused ? review.data?.filter((row) => row.unused) : review.data;
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-3 pb-3">
        {/* biome-ignore lint/a11y/noLabelWithoutControl: the switch inside is its control */}
        <label className="inline-flex items-center gap-2 text-13">
          <Switch label="Only unused for 90 days" checked={unused} onChange={onUnused} />
          Only unused for 90 days{review.data ? ` (${count(idle)})` : ""}
        </label>
        <Button
          icon={<Download aria-hidden />}
          blockedBecause={rows?.length ? undefined : "There is nothing to download."}
          onClick={() => save(`corvo-access-${tenant}-${today()}.csv`, reviewCsv(rows ?? []))}
        >
          Download CSV
        </Button>
      </div>
      <Card flush footer={rows ? `${count(rows.length)} in all` : undefined}>
        <Table
          label="Access"
          rows={rows}
          rowKey={(row) => row.principalId}
          columns={columns}
          initialSort={{ column: "name", descending: false }}
          empty={
            <EmptyState
              icon={<CircleCheck aria-hidden />}
              title="Everything was used in the last 90 days"
              action={<Button onClick={() => onUnused(false)}>Show everyone</Button>}
            >
              Members, service accounts and keys that nobody uses appear here, so that you can remove them.
            </EmptyState>
          }
        />
      </Card>
    </>
  );
}

/** "operator in production" with the role as it is written everywhere else. */
const roleInWords = (role: string) => role.replace(/^\w+(?=$| in )/, roleName);

const columns: Column<ReviewedPrincipal>[] = [
  {
    id: "name",
    header: "Who",
    phone: "title",
    sort: (row) => row.principal,
    cell: (row) => (
      <span className="flex flex-wrap items-center gap-x-2">
        <span className="font-medium wrap-anywhere">{row.principal}</span>
        {row.unused ? <Badge tone="warn">unused</Badge> : null}
        {row.disabled ? <Badge>disabled</Badge> : null}
        {row.owner ? (
          <span className="block w-full text-12 wrap-anywhere text-ink-3">of {row.owner}</span>
        ) : null}
      </span>
    ),
  },
  {
    id: "type",
    header: "Type",
    width: "w-36",
    sort: (row) => row.type,
    cell: (row) => typeNames[row.type] ?? row.type,
  },
  {
    id: "roles",
    header: "Roles",
    cell: (row) => (
      <span className="wrap-anywhere">
        {row.roles.map(roleInWords).join("; ") || <span className="text-ink-3">–</span>}
        {row.groups.length > 0 ? (
          <span className="block text-12 text-ink-3">in {row.groups.join(", ")}</span>
        ) : null}
      </span>
    ),
  },
  {
    id: "used",
    header: "Last used",
    width: "w-32",
    sort: (row) => dateOf(row.lastUsedAt)?.getTime() ?? 0,
    cell: (row) => <Time at={dateOf(row.lastUsedAt)} none="never" className="text-ink-2" />,
  },
  {
    id: "expires",
    header: "Expires",
    width: "w-32",
    cell: (row) => <Time at={dateOf(row.expiresAt)} none="–" className="text-ink-2" />,
  },
];

const today = () => new Date().toISOString().slice(0, 10);

function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
