// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Tabs } from "./tabs";

afterEach(cleanup);

const tabs = [
  { value: "timeline", label: "Timeline", content: "What happened" },
  { value: "errors", label: "Errors", count: 3, content: "What failed" },
] as const;

it("shows the panel of the chosen tab, which is the caller's to choose", () => {
  const onChange = vi.fn();
  const all = (value: "timeline" | "errors") => (
    <Tabs label="Job details" tabs={tabs} value={value} onChange={onChange} />
  );
  const { rerender } = render(all("timeline"));
  expect(screen.getByRole("tabpanel").textContent).toBe("What happened");
  fireEvent.click(screen.getByRole("tab", { name: /Errors/ }));
  expect(onChange).toHaveBeenCalledWith("errors");
  expect(screen.getByRole("tabpanel").textContent).toBe("What happened");
  rerender(all("errors"));
  expect(screen.getByRole("tab", { selected: true }).textContent).toBe("Errors3");
  expect(screen.getByRole("tabpanel", { name: /Errors/ }).textContent).toBe("What failed");
});
