import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Search, UsersRound } from "lucide-react";
import { useCopyAs } from "~/components/shell/copy-as";
import { Button } from "~/components/ui/button";
import { Card } from "~/components/ui/card";
import { Choice } from "~/components/ui/choice";
import { EmptyState } from "~/components/ui/empty";
import { Input } from "~/components/ui/field";
import { Page } from "~/components/ui/page";
import { type Column, Table } from "~/components/ui/table";
import { Time } from "~/components/ui/time";
import { operatorReads } from "~/data/operator";
import { Refused } from "~/features/operator/refused";
import { figures, State, sorts, states } from "~/features/operator/words";
import type { TenantSummary } from "~/gen/corvo/cloud/v1/operator_pb";
import { tenantsEquivalents } from "~/lib/operator-equivalents";
import { dateOf } from "~/lib/proto-time";

const route = getRouteApi("/operator/");

/** All tenants, by what they pay and how much they use. */
export function OperatorTenantsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const filter = {
    search: search.search ?? "",
    plan: search.plan ?? "",
    state: search.state ?? "",
    sort: search.sort ?? "revenue",
  };
  useCopyAs(tenantsEquivalents(filter));
  const tenants = useInfiniteQuery(operatorReads.tenants(filter));
  const plans = useQuery({ ...operatorReads.plans(), enabled: tenants.isSuccess });
  const narrow = (part: Partial<typeof filter>) =>
    void navigate({
      search: (was) => ({
        ...was,
        ...Object.fromEntries(Object.entries(part).map(([name, value]) => [name, value || undefined])),
      }),
      replace: true,
      resetScroll: false,
    });
  const names = [...new Set(plans.data?.versions.map(({ spec }) => spec?.name ?? ""))];
  return (
    <Page
      title="Tenants"
      description="Figures are stored: each row says when its own were computed. Money is before tax, as if the month ended now."
    >
      {tenants.error && !tenants.data ? (
        <Refused error={tenants.error} onRetry={() => void tenants.refetch()} />
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2">
            <div className="w-full sm:w-60">
              <Input
                type="search"
                data-filter
                aria-label="Name or id"
                placeholder="Name or id"
                icon={<Search aria-hidden />}
                value={filter.search}
                onChange={(text) => narrow({ search: text })}
              />
            </div>
            <Choice
              label="Plan"
              className="w-full! sm:w-44!"
              options={[
                { value: "", label: "All plans" },
                ...[...new Set([...names, filter.plan])]
                  .filter(Boolean)
                  .map((value) => ({ value, label: value })),
              ]}
              value={filter.plan}
              onChange={(plan) => narrow({ plan })}
            />
            <Choice
              label="State"
              className="w-full! sm:w-44!"
              options={states}
              value={filter.state}
              onChange={(state) => narrow({ state })}
            />
            <Choice
              label="Sort by"
              className="w-full! sm:w-52!"
              options={sorts}
              value={filter.sort}
              onChange={(sort) => narrow({ sort })}
            />
          </div>
          <Card flush>
            <Table
              paged
              more={tenants.hasNextPage}
              label="Tenants"
              columns={columns(filter.sort)}
              rows={tenants.data?.pages.flatMap((page) => page.tenants)}
              rowKey={(row) => row.tenantId}
              empty={
                <EmptyState icon={<UsersRound aria-hidden />} title="No matching tenants">
                  Tenants appear here as soon as somebody signs up.
                </EmptyState>
              }
            />
          </Card>
          {tenants.hasNextPage ? (
            <Button
              className="self-center"
              busy={tenants.isFetchingNextPage}
              onClick={() => void tenants.fetchNextPage()}
            >
              Show more
            </Button>
          ) : null}
        </>
      )}
    </Page>
  );
}

const columns = (sort: string): readonly Column<TenantSummary>[] => [
  {
    id: "name",
    header: "Tenant",
    phone: "title",
    cell: (row) => (
      <Link
        to="/operator/tenants/$id"
        params={{ id: row.tenantId }}
        className="font-medium wrap-anywhere hover:underline"
      >
        {row.tenant}
      </Link>
    ),
  },
  {
    id: "plan",
    header: "Plan",
    cell: (row) => (
      <span className="whitespace-nowrap">
        {row.plan} <span className="text-12 text-ink-3">v{row.planVersion}</span>
      </span>
    ),
  },
  { id: "state", header: "State", phone: "corner", cell: (row) => <State state={row.state} /> },
  ...figures.map(
    ({ id, header, of }): Column<TenantSummary> => ({
      id,
      header,
      align: "right",
      cell: (row) => (
        <span className={id === sort ? "nums font-semibold" : "nums"}>
          {row.figures ? of(row.figures) : "–"}
        </span>
      ),
    }),
  ),
  {
    id: "at",
    header: "Computed",
    align: "right",
    cell: (row) => (
      <span className="text-12 whitespace-nowrap text-ink-3">
        <Time at={dateOf(row.figures?.at)} none="Not yet" />
      </span>
    ),
  },
];
