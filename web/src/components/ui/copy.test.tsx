// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { CodeBlock } from "./code";
import { toast } from "./toast";

vi.mock("./toast", () => ({ toast: vi.fn() }));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function clipboard(writeText: (text: string) => Promise<void>) {
  const write = vi.fn(writeText);
  vi.stubGlobal("navigator", { ...navigator, clipboard: { writeText: write } });
  return write;
}

const copy = () => fireEvent.click(screen.getByRole("button", { name: "Copy command" }));

it("copies what is meant, not what is shown, and says so", async () => {
  const write = clipboard(() => Promise.resolve());
  render(<CodeBlock label="Command" code="corvo --key ck_…" copyText="corvo --key ck_secret" />);
  copy();
  expect(await screen.findByText("Copied")).toBeTruthy();
  expect(write).toHaveBeenCalledWith("corvo --key ck_secret");
});

it("says when the browser does not let it", async () => {
  clipboard(() => Promise.reject(new Error("denied")));
  render(<CodeBlock label="Command" code="corvo jobs list" />);
  copy();
  await vi.waitFor(() => expect(toast).toHaveBeenCalledWith(expect.objectContaining({ kind: "error" })));
  expect(screen.queryByText("Copied")).toBeNull();
});
