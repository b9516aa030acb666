import { Link, useRouter } from "@tanstack/react-router";
import { CloudAlert, Compass } from "lucide-react";
import { createContext, type ReactNode, use } from "react";
import { Button, buttonClass } from "~/components/ui/button";
import { EmptyState } from "~/components/ui/empty";
import { usePageTitle } from "~/components/ui/page";
import { describeError } from "~/data/control";

/** True inside of the shell, which has the main landmark. */
export const Framed = createContext(false);

// The router shows these pages inside or outside of the shell, wherever it was stopped.
export function PageFrame({ children }: { children: ReactNode }) {
  return use(Framed) ? (
    children
  ) : (
    <main id="main" className="grid min-h-dvh place-items-center">
      {children}
    </main>
  );
}

/** What a part of a page shows when it could not be loaded: what happened, and a way on. */
export function Problem({ error, onRetry, level }: { error: unknown; onRetry?: () => void; level?: 1 | 2 }) {
  const router = useRouter();
  return (
    <div role="alert">
      <EmptyState
        icon={<CloudAlert aria-hidden />}
        level={level}
        title="This could not be loaded"
        action={
          <Button variant="primary" onClick={onRetry ?? (() => void router.invalidate())}>
            Try again
          </Button>
        }
      >
        {describeError(error)}
      </EmptyState>
    </div>
  );
}

/** The same as a whole page. */
export function ProblemPage({ error }: { error: unknown }) {
  usePageTitle("Something is wrong");
  return (
    <PageFrame>
      <Problem error={error} level={1} />
    </PageFrame>
  );
}

export function NotFound({ what = "page" }: { what?: string }) {
  usePageTitle("Not found");
  return (
    <PageFrame>
      <EmptyState
        level={1}
        icon={<Compass aria-hidden />}
        title={`There is no such ${what}`}
        action={
          <Link to="/" className={buttonClass("primary")}>
            Go home
          </Link>
        }
      >
        It may have been deleted, or the address has a mistake in it. You may also be signed in as somebody
        who cannot see it.
      </EmptyState>
    </PageFrame>
  );
}
