// @vitest-environment happy-dom
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { CopyAsProvider, type Equivalents, useCopyAs, useEquivalents } from "./copy-as";

afterEach(cleanup);

function Page({ says }: { says: Equivalents }) {
  useCopyAs(says);
  return null;
}

function Shown() {
  return <output>{useEquivalents()?.cli ?? "nothing"}</output>;
}

it("what stands for the page is that of the page that shows, and goes with it", () => {
  const shell = (page: string | null) => (
    <CopyAsProvider>
      {page ? <Page key={page} says={{ cli: page }} /> : null}
      <Shown />
    </CopyAsProvider>
  );
  const { rerender } = render(shell("corvo queues list"));
  expect(screen.getByRole("status").textContent).toBe("corvo queues list");
  rerender(shell("corvo jobs list"));
  expect(screen.getByRole("status").textContent).toBe("corvo jobs list");
  rerender(shell(null));
  expect(screen.getByRole("status").textContent).toBe("nothing");
});
