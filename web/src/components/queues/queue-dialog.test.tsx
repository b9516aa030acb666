// @vitest-environment happy-dom
import { cleanup, fireEvent, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { jobsApi, type Queue } from "~/data/jobs-api";
import { newClient, showAt } from "~/testing/page";
import QueueDialog from "./queue-dialog";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const DAY = 86_400_000;

async function show(queue: Partial<Queue>) {
  const save = vi.spyOn(jobsApi, "setLimits").mockResolvedValue({} as never);
  const whole = { name: "emails", inherited_retention: {}, effective_retention: {}, ...queue } as Queue;
  await showAt(
    "/acme/production",
    <QueueDialog
      scope={{ tenant: "acme", namespace: "production" }}
      queue={whole}
      rights={{ blocked: () => undefined }}
      onClose={() => {}}
    />,
    newClient(),
  );
  return save;
}

const limited = {
  retention: { completed_ms: DAY },
  inherited_retention: {
    completed_ms: 7 * DAY,
    dead_ms: 30 * DAY,
    cancelled_ms: 30 * DAY,
    finished_max: 5000,
  },
  retention_max: { completed_ms: 30 * DAY, dead_ms: 90 * DAY, finished_max: 1_000_000 },
};

const submit = () => fireEvent.click(screen.getByRole("button", { name: "Save" }));
const ageOf = (label: string) => screen.getByLabelText<HTMLSelectElement>(label);

it("shows what is inherited, also where the queue has its own, and the most that the plan keeps", async () => {
  await show(limited);
  const completed = ageOf("Completed jobs");
  expect(completed.selectedOptions[0]?.text).toBe("1 d");
  expect([...completed.options].map((option) => option.text)).toEqual([
    "Namespace (7 d)",
    "1 h",
    "1 d",
    "3 d",
    "7 d",
    "30 d",
    "Custom",
  ]);
  expect(screen.getByText("At most 30 d.")).toBeTruthy();
  expect(screen.getByText("At most 90 d.")).toBeTruthy();
  expect(screen.getByText("At most 1,000,000.")).toBeTruthy();
  expect(screen.getByLabelText("Finished jobs at most").getAttribute("placeholder")).toBe("5,000");
});

it("doesn't send what is over the plan's maximum", async () => {
  const save = await show(limited);
  fireEvent.change(screen.getByLabelText("Finished jobs at most"), { target: { value: "1000001" } });
  submit();
  expect(screen.getByText("Your plan keeps at most 1,000,000.")).toBeTruthy();
  fireEvent.change(screen.getByLabelText("Finished jobs at most"), { target: { value: "" } });
  fireEvent.change(ageOf("Dead jobs"), { target: { value: "custom" } });
  fireEvent.change(screen.getByLabelText("Dead jobs, custom"), { target: { value: "91 d" } });
  submit();
  expect(screen.getByText("Your plan keeps at most 90 d.")).toBeTruthy();
  expect(save).not.toHaveBeenCalled();
  fireEvent.change(screen.getByLabelText("Dead jobs, custom"), { target: { value: "90 d" } });
  submit();
  await vi.waitFor(() => expect(save).toHaveBeenCalledOnce());
  expect(save.mock.calls[0]?.[2].retention).toEqual({ completed_ms: DAY, dead_ms: 90 * DAY });
});

it("a setting that a smaller plan no longer keeps is shown with the maximum", async () => {
  const save = await show({ ...limited, retention: { completed_ms: 90 * DAY } });
  expect(screen.getByLabelText<HTMLInputElement>("Completed jobs, custom").value).toBe("90 d");
  expect(screen.getByText("Your plan keeps at most 30 d.")).toBeTruthy();
  submit();
  expect(save).not.toHaveBeenCalled();
});

it("without a maximum there is none to show", async () => {
  await show({ inherited_retention: limited.inherited_retention });
  expect(screen.queryByText(/^At most/)).toBeNull();
  expect([...ageOf("Completed jobs").options].map((option) => option.text)).toContain("365 d");
});

it("doesn't send a number that another reader would read as another one", async () => {
  const save = await show({ retention: { completed_ms: DAY } });
  fireEvent.change(screen.getByLabelText("Finished jobs at most"), { target: { value: "10.000" } });
  submit();
  expect(screen.getByText(/Enter a whole number above 0/)).toBeTruthy();
  expect(save).not.toHaveBeenCalled();
  fireEvent.change(screen.getByLabelText("Finished jobs at most"), { target: { value: "10,000" } });
  submit();
  await vi.waitFor(() => expect(save).toHaveBeenCalledOnce());
  expect(save.mock.calls[0]?.[2].retention).toEqual({ completed_ms: DAY, finished_max: 10_000 });
});
