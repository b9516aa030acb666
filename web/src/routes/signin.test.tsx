// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { cleanup, configure, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { newRouter } from "../router";

// On a busy machine it may take longer than a second.
configure({ asyncUtilTimeout: 10_000 });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

/** A service whose answers are by method; the list is what was asked of it. */
function service(answers: Record<string, object>): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: string | URL) => {
    const method = String(url).split("/").pop() ?? "";
    asked.push(method);
    const answer = answers[method];
    const headers = { "Content-Type": "application/json" };
    return answer
      ? new Response(JSON.stringify(answer), { headers })
      : new Response(JSON.stringify({ code: "resource_exhausted", message: "too many" }), {
          status: 429,
          headers,
        });
  });
  return asked;
}

async function signIn(email: string): Promise<void> {
  const client = new QueryClient();
  const router = newRouter(client);
  router.update({
    context: { client },
    history: createMemoryHistory({ initialEntries: ["/signin?next=%2Facme"] }),
  });
  render(
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  fireEvent.change(await screen.findByLabelText("Email"), { target: { value: email } });
  fireEvent.click(screen.getByRole("button", { name: "Continue" }));
}

it("offers single sign-on where the domain has it, and a link all the same", async () => {
  const asked = service({
    FindSignIn: { ssoUrl: "https://elsewhere.test/auth/oidc/start?tenant=acme" },
    StartLogin: {},
  });
  const went = vi.spyOn(window.location, "assign").mockImplementation(() => undefined);
  await signIn("ada@acme.test");
  const byLink = await screen.findByRole("button", { name: "Email me a link instead" });
  fireEvent.click(screen.getByRole("button", { name: "Continue with SSO" }));
  expect(went).toHaveBeenCalledWith("/auth/oidc/start?tenant=acme&next=%2Facme");
  expect(asked).not.toContain("StartLogin");
  fireEvent.click(byLink);
  await screen.findByText("Check your email");
});

it("mails a link where the domain has none, or nobody can say", async () => {
  service({ FindSignIn: {}, StartLogin: {} });
  await signIn("ada@home.test");
  await screen.findByText("Check your email");
  cleanup();
  service({ StartLogin: {} });
  await signIn("ada@home.test");
  await screen.findByText("Check your email");
});
