import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Toaster } from "./components/ui/toast";
import { TooltipLayer } from "./components/ui/tooltip";
import { newQueryClient } from "./data/queries";
import { isUnreachable } from "./data/reach";
import { tokens } from "./data/token";
import { badSearch } from "./lib/search";
import { isEntry } from "./pages";
import { newRouter } from "./router";
import "./styles.css";

const client = newQueryClient(() => {
  const { pathname, href } = router.state.location;
  // The pages before the sign-in ask who is signed in, which may be nobody.
  if (isEntry(pathname)) return;
  tokens.clear();
  void router.navigate({ to: "/signin", search: { next: href, problem: "session_ended" } });
});
const router = newRouter(client);
const element = document.getElementById("root");
if (!element) throw new Error("index.html has no #root");

// Errors that a page shows are not logged to the browser's console.
function onCaughtError(error: unknown): void {
  if (!badSearch(error) && !isUnreachable(error)) reportError(error);
}

createRoot(element, { onCaughtError }).render(
  <StrictMode>
    {/* The policy allows no inline style elements; popups are styled by classes. */}
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
        <TooltipLayer />
        <Toaster />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
