// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { actionsColumn, type Column, Table } from "./table";

afterEach(cleanup);

interface Row {
  name: string;
  jobs: number;
}

const columns: Column<Row>[] = [
  { id: "name", header: "Name", cell: (row) => row.name, sort: (row) => row.name, phone: "title" },
  { id: "jobs", header: "Jobs", cell: (row) => row.jobs, sort: (row) => row.jobs, phone: "corner" },
  { id: "actions", header: "Actions", cell: () => "", hideHeader: true },
];
const queues = (...names: string[]): Row[] => names.map((name, jobs) => ({ name, jobs }));
const show = (rows: Row[] | undefined, paged = false) =>
  render(
    <Table
      label="Queues"
      columns={columns}
      rows={rows}
      rowKey={(row) => row.name}
      paged={paged}
      empty="No queues"
    />,
  );
const names = () =>
  screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => within(row).getAllByRole("cell")[0]?.textContent);
const header = (name: string) => screen.getByRole("columnheader", { name });

it("loads, then says that there is nothing", () => {
  const { rerender } = show(undefined);
  expect(screen.getByLabelText("Loading Queues")).toBeTruthy();
  rerender(<Table label="Queues" columns={columns} rows={[]} rowKey={(row) => row.name} empty="No queues" />);
  expect(screen.getByText("No queues")).toBeTruthy();
  expect(screen.queryByRole("table")).toBeNull();
});

it("sorts by a click on a header, numbers in names as numbers, and says so", () => {
  show(queues("shard-10", "shard-9", "shard-1"));
  expect(names()).toEqual(["shard-10", "shard-9", "shard-1"]);
  expect(header("Name").getAttribute("aria-sort")).toBe("none");
  fireEvent.click(within(header("Name")).getByRole("button"));
  expect(names()).toEqual(["shard-1", "shard-9", "shard-10"]);
  expect(header("Name").getAttribute("aria-sort")).toBe("ascending");
  fireEvent.click(within(header("Name")).getByRole("button"));
  expect(names()).toEqual(["shard-10", "shard-9", "shard-1"]);
  expect(header("Name").getAttribute("aria-sort")).toBe("descending");
});

it("a column that cannot be sorted has no button, and a hidden header is still spoken", () => {
  show(queues("a"));
  expect(within(header("Actions")).queryByRole("button")).toBeNull();
  expect(header("Actions").hasAttribute("aria-sort")).toBe(false);
});

it("shows a hundred rows at once and more by a click; pages show all", () => {
  const many = queues(...Array.from({ length: 230 }, (_, n) => `queue-${n}`));
  show(many);
  expect(names()).toHaveLength(100);
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("231");
  fireEvent.click(screen.getByRole("button", { name: "Show 100 more" }));
  fireEvent.click(screen.getByRole("button", { name: "Show 30 more" }));
  expect(names()).toHaveLength(230);
  cleanup();
  show(many, true);
  expect(names()).toHaveLength(230);
});

it("a row's buttons act on that row; one that may not be used says why", () => {
  const pause = vi.fn();
  const remove = vi.fn();
  const buttons = actionsColumn<Row>({ blockedBecause: "Your role can't." }, ({ name }) => [
    { label: `Pause ${name}`, icon: "‖", blockedBecause: undefined, onClick: () => pause(name) },
    { label: `Delete ${name}`, icon: "×", danger: true, onClick: () => remove(name) },
  ]);
  render(
    <Table
      label="Queues"
      columns={[...columns, buttons]}
      rows={queues("a", "b")}
      rowKey={(row) => row.name}
    />,
  );
  fireEvent.click(screen.getByRole("button", { name: "Pause b" }));
  expect(pause.mock.calls).toEqual([["b"]]);
  const blocked = screen.getByRole("button", { name: "Delete b" });
  expect(blocked.getAttribute("aria-description")).toBe("Your role can't.");
  fireEvent.click(blocked);
  expect(remove).not.toHaveBeenCalled();
});

it("a button that turns into its opposite keeps the focus", () => {
  const table = (verb: string) => (
    <Table
      label="Queues"
      columns={[actionsColumn<Row>({}, () => [{ label: verb, icon: "‖", onClick: () => {} }])]}
      rows={queues("a")}
      rowKey={(row) => row.name}
    />
  );
  const { rerender } = render(table("Pause"));
  screen.getByRole("button", { name: "Pause" }).focus();
  rerender(table("Resume"));
  expect(document.activeElement).toBe(screen.getByRole("button", { name: "Resume" }));
});
