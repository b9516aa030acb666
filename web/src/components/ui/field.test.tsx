// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Choice } from "./choice";
import { Field, Input, NativeSelect, Textarea } from "./field";

afterEach(cleanup);

const controls = {
  Input: <Input value="" onChange={() => {}} />,
  "Input with a prefix": <Input prefix="$" value="" onChange={() => {}} />,
  Textarea: <Textarea value="" onChange={() => {}} />,
  NativeSelect: <NativeSelect value="" onChange={() => {}} />,
  Choice: <Choice options={[]} value="" onChange={() => {}} />,
};

it.each(Object.entries(controls))(
  "%s is named by its field, and described by hint and error",
  (_, control) => {
    const field = (error?: string) => (
      <Field label="Queue" hint="Where it goes." error={error}>
        {control}
      </Field>
    );
    const { rerender } = render(field());
    const input = screen.getByLabelText("Queue");
    expect(input.hasAttribute("aria-invalid")).toBe(false);
    const described = () =>
      (input.getAttribute("aria-describedby") ?? "")
        .split(" ")
        .map((id) => document.getElementById(id)?.textContent);
    expect(described()).toEqual(["Where it goes."]);
    rerender(field("Enter a queue."));
    expect(described()).toEqual(["Where it goes.", "Enter a queue."]);
    expect(input.getAttribute("aria-invalid")).toBe("true");
  },
);

it("hands out what is typed, and lets the browser fill in only what it is told", () => {
  const onChange = vi.fn();
  render(
    <>
      <Input aria-label="Tag" value="" onChange={onChange} />
      <Input aria-label="Email" autoComplete="email" value="" onChange={onChange} />
    </>,
  );
  fireEvent.change(screen.getByLabelText("Tag"), { target: { value: "team:ops" } });
  expect(onChange).toHaveBeenCalledWith("team:ops");
  expect(screen.getByLabelText("Tag").getAttribute("autocomplete")).toBe("off");
  expect(screen.getByLabelText("Email").getAttribute("autocomplete")).toBe("email");
});
