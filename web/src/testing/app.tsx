import { type QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import { vi } from "vitest";
import { nameOf } from "~/data/access";
import { newQueryClient } from "~/data/queries";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { newRouter } from "~/router";

/** What was asked of the service. */
export interface Call {
  /** GET, POST or DELETE. */
  method: string;
  /** Method of the control API, or path below the namespace, with its query. */
  path: string;
  body: Record<string, unknown> | undefined;
}

const json = (answer: unknown, status = 200) =>
  new Response(JSON.stringify(answer), { status, headers: { "Content-Type": "application/json" } });

/** An answer that refuses. */
export const refused = (status = 403) => json({ code: "permission_denied", message: "refused" }, status);

const permissions = Object.values(Permission).filter((each): each is Permission => Number(each) > 0);

const usual: Record<string, unknown> = {
  GetCurrentIdentity: {
    user: { id: "usr_1", email: "ada@acme.test" },
    tenants: [
      { tenant: "acme", tenantId: "tnt_1", tenantUrl: "http://acme.test", roles: ["owner"], permissions },
    ],
  },
  MintToken: { token: "t", permissions: permissions.map(nameOf) },
  "/queues": [],
};

interface App {
  calls: Call[];
  client: QueryClient;
  router: ReturnType<typeof newRouter>;
}

/**
 * Opens the whole console at a URL, for an owner of acme. A service answers that says what
 * `answer` returns, and to everything else that there is nothing.
 */
export function openApp(url: string, answer: (call: Call) => unknown): App {
  const calls: Call[] = [];
  vi.stubGlobal("fetch", async (input: string | URL, init: RequestInit = {}) => {
    const call = callOf(String(input), init);
    calls.push(call);
    // The stream of events stays open without a word.
    if (call.path.startsWith("/events")) return new Promise<Response>(() => {});
    const said = (await answer(call)) ?? usual[call.path] ?? {};
    return said instanceof Response ? said : json(said);
  });
  const client = newQueryClient(() => {});
  const router = newRouter(client);
  router.update({ context: { client }, history: createMemoryHistory({ initialEntries: [url] }) });
  render(
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return { calls, client, router };
}

function callOf(url: string, { method = "GET", body }: RequestInit): Call {
  const text = body instanceof Uint8Array ? new TextDecoder().decode(body) : body;
  const path = /\/corvo\.cloud\.v1\.\w+\/(\w+)$/.exec(url)?.[1] ?? url.replace(/^.*\/api\/v1/, "");
  return { method, path, body: typeof text === "string" && text ? JSON.parse(text) : undefined };
}
