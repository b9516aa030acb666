// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Button, IconButton } from "./button";

afterEach(cleanup);

it("does what it says, and submits no form around it", () => {
  const onClick = vi.fn();
  const onSubmit = vi.fn();
  render(
    <form onSubmit={onSubmit}>
      <Button onClick={onClick}>Pause</Button>
    </form>,
  );
  fireEvent.click(screen.getByRole("button", { name: "Pause" }));
  expect(onClick).toHaveBeenCalledOnce();
  expect(onSubmit).not.toHaveBeenCalled();
});

it("blocked, it does nothing, can be focused, and says why", () => {
  const onClick = vi.fn();
  render(
    <IconButton label="Pause emails" blockedBecause="Your role can't." disabled onClick={onClick}>
      ‖
    </IconButton>,
  );
  const button = screen.getByRole("button", { name: "Pause emails" });
  expect(button.getAttribute("aria-description")).toBe("Your role can't.");
  fireEvent.click(button);
  expect(onClick).not.toHaveBeenCalled();
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect((button as HTMLButtonElement).disabled).toBe(false);
});

it("busy, it takes no second click", () => {
  const onClick = vi.fn();
  render(
    <Button busy onClick={onClick}>
      Save
    </Button>,
  );
  const button = screen.getByRole("button", { name: "Save" });
  fireEvent.click(button);
  expect(onClick).not.toHaveBeenCalled();
  expect(button.getAttribute("aria-busy")).toBe("true");
});
