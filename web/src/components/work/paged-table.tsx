import { Problem } from "~/components/problem";
import { Card } from "~/components/ui/card";
import { Table, type TableProps } from "~/components/ui/table";
import { useRowKeys } from "~/lib/row-keys";
import { More, type MoreProps } from "./parts";

interface PagedTableProps<Row> extends Omit<TableProps<Row>, "rows" | "paged" | "more"> {
  list: MoreProps["list"] & {
    data: { pages: { rows: Row[] }[] } | undefined;
    error: unknown;
    refetch: () => Promise<unknown>;
  };
}

/** A table whose rows come page by page and can be walked by keyboard. */
export function PagedTable<Row>({ list, ...table }: PagedTableProps<Row>) {
  const element = useRowKeys<HTMLDivElement>({});
  const rows = list.data?.pages.flatMap((page) => page.rows);
  if (list.error && !rows) return <Problem error={list.error} onRetry={() => void list.refetch()} />;
  return (
    <div ref={element} className="flex flex-col gap-3">
      <Card flush>
        <Table {...table} rows={rows} paged more={list.hasNextPage} />
      </Card>
      <More list={list} />
    </div>
  );
}
