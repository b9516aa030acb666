import type { QueryClient } from "@tanstack/react-query";
import {
  type AnyRoute,
  createRootRouteWithContext,
  createRoute,
  createRouter,
  notFound,
  Outlet,
  parseSearchWith,
  type ResolveFullPath,
  type ResolveId,
  type Route,
  redirect,
  stringifySearchWith,
} from "@tanstack/react-router";
import { NotFound, ProblemPage } from "./components/problem";
import { Shell } from "./components/shell/shell";
import { accessOf } from "./data/access";
import { isUnauthenticated } from "./data/control";
import { reads } from "./data/queries";
import { whenIdle } from "./lib/idle";
import { prefetchParts } from "./lib/prefetch";
import { recentNamespace, recentTenant } from "./lib/recent";
import { exactJson } from "./lib/search";
import {
  chunk,
  entryPages,
  namespacePages,
  operator as operatorChunk,
  operatorPages,
  type PageRows,
  tenantPages,
} from "./pages";

// The pages are rows of pages.ts; by hand are only the routes that they hang on, and the
// addresses that lead to one of them.

/** A path as its parent names it. */
type Below<Parent extends string, Path extends string> = Path extends Parent
  ? "/"
  : Path extends `${Parent}${infer Rest}`
    ? Rest
    : never;

type PageRoute<Parent extends AnyRoute, Path extends string, Page> = Route<
  unknown,
  Parent,
  Path,
  ResolveFullPath<Parent, Path>,
  string,
  ResolveId<Parent, string, Path>,
  Page extends { search: infer Search } ? Search : undefined
>;

type PageRoutes<Parent extends AnyRoute, Prefix extends string, Pages extends PageRows> = {
  [Id in keyof Pages]: PageRoute<Parent, Below<Prefix, Pages[Id]["path"]>, Pages[Id]>;
};

/** The routes of pages, typed as if each were written out: links know their paths and searches. */
function routesBelow<Parent extends AnyRoute, Prefix extends string, Pages extends PageRows>(
  parent: Parent,
  prefix: Prefix,
  pages: Pages,
): PageRoutes<Parent, Prefix, Pages> {
  const routes = Object.entries(pages).map(([id, { path, title, search, beforeLoad, component }]) => [
    id,
    createRoute({
      getParentRoute: () => parent as AnyRoute,
      path: path.slice(prefix.length) || "/",
      component,
      staticData: { title },
      validateSearch: search,
      beforeLoad,
    }),
  ]);
  return Object.fromEntries(routes) as PageRoutes<Parent, Prefix, Pages>;
}

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  component: Outlet,
  errorComponent: ({ error }) => <ProblemPage error={error} />,
  notFoundComponent: () => <NotFound />,
});

async function identityOrSignIn(client: QueryClient, href: string) {
  try {
    return await client.ensureQueryData(reads.identity());
  } catch (error) {
    if (isUnauthenticated(error))
      throw redirect({ to: "/signin", search: href === "/" ? {} : { next: href } });
    throw error;
  }
}

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: async ({ context, location }) => {
    const identity = await identityOrSignIn(context.client, location.href);
    const recent = recentTenant();
    const entry = identity.tenants.find((tenant) => tenant.tenant === recent) ?? identity.tenants[0];
    throw entry
      ? redirect({ to: "/$tenant", params: { tenant: entry.tenant } })
      : redirect({ to: identity.operatorRole ? "/operator" : "/signup" });
  },
});

// URLs that people type, and those in older emails.
const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  beforeLoad: ({ location }) => {
    throw redirect({ to: "/signin", search: location.search, hash: location.hash });
  },
});

const tenant = createRoute({
  getParentRoute: () => root,
  path: "/$tenant",
  beforeLoad: async ({ context, params, location }) => {
    const identity = await identityOrSignIn(context.client, location.href);
    const entry = identity.tenants.find((candidate) => candidate.tenant === params.tenant);
    if (!entry) throw notFound();
    return { identity, access: accessOf(entry) };
  },
  component: Shell,
  errorComponent: ({ error }) => <ProblemPage error={error} />,
  notFoundComponent: chunk(() => import("./components/shell/absent"), "NoTenant"),
  onEnter: () => void whenIdle(() => void prefetchParts()),
});

const tenantHome = createRoute({
  getParentRoute: () => tenant,
  path: "/",
  beforeLoad: async ({ context, params }) => {
    const namespaces = await context.client.ensureQueryData(reads.namespaces(params.tenant)).catch(() => []);
    const recent = recentNamespace(params.tenant);
    const name =
      namespaces.find((entry) => entry.name === recent)?.name ??
      namespaces.find((entry) => entry.name === "default")?.name ??
      namespaces[0]?.name ??
      "default";
    throw redirect({ to: "/$tenant/$namespace", params: { tenant: params.tenant, namespace: name } });
  },
});

const settings = createRoute({
  getParentRoute: () => tenant,
  path: "/settings",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/$tenant/settings/namespaces", params });
  },
});

const namespace = createRoute({
  getParentRoute: () => tenant,
  path: "/$namespace",
  component: Outlet,
});

const operator = createRoute({
  getParentRoute: () => root,
  path: "/operator",
  beforeLoad: async ({ context, location }) => {
    const identity = await identityOrSignIn(context.client, location.href);
    if (!identity.operatorRole) throw notFound();
    return identity;
  },
  component: chunk(operatorChunk, "Frame"),
});

const tree = root.addChildren({
  home,
  login,
  operator: operator.addChildren(routesBelow(operator, "/operator", operatorPages)),
  ...routesBelow(root, "", entryPages),
  tenant: tenant.addChildren({
    tenantHome,
    settings,
    ...routesBelow(tenant, "/$tenant", tenantPages),
    namespace: namespace.addChildren(routesBelow(namespace, "/$tenant/$namespace", namespacePages)),
  }),
});

export function newRouter(client: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { client },
    parseSearch: parseSearchWith(exactJson),
    stringifySearch: stringifySearchWith(JSON.stringify, exactJson),
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    // What is open over a page is about its job, queue or key: of another one it is another page.
    defaultRemountDeps: ({ params }) => params,
    defaultErrorComponent: ({ error }) => <ProblemPage error={error} />,
    defaultNotFoundComponent: () => <NotFound />,
  });
}

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    /** Of the page, from its row. */
    title?: string | undefined;
  }
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
