import { Link, useRouter, useRouterState } from "@tanstack/react-router";
import { CircleAlert, CloudAlert, Compass, DoorClosed } from "lucide-react";
import { createContext, lazy, type ReactNode, Suspense, use, useEffect, useState } from "react";
import { Button, buttonClass } from "~/components/ui/button";
import { EmptyState, type EmptyStateProps } from "~/components/ui/empty";
import { usePageTitle } from "~/components/ui/page";
import { describeError, isRefusal, refusalReason } from "~/data/control";
import { answers, isChunkLost, isUnreachable, reloadOnce } from "~/data/reach";
import { type BadSearch, badSearch } from "~/lib/search";

// What a sign-in policy refuses is rare; how to go on is loaded when it happens.
const Barred = lazy(() => import("~/features/account/barred"));

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

/** What went wrong, announced. Without more it is about the whole page, and about the network. */
function Alert({ level = 1, icon = <CloudAlert aria-hidden />, ...rest }: EmptyStateProps) {
  return (
    <div role="alert">
      <EmptyState level={level} icon={icon} {...rest} />
    </div>
  );
}

const reload = (
  <Button variant="primary" onClick={() => window.location.reload()}>
    Reload page
  </Button>
);

/** What a part of a page shows when it could not be loaded: what happened, and a way on. */
export function Problem({
  error,
  onRetry,
  level = 2,
}: {
  error: unknown;
  onRetry?: () => void;
  level?: 1 | 2;
}) {
  const router = useRouter();
  const reason = refusalReason(error);
  if (reason === "SSO_REQUIRED" || reason === "SECOND_FACTOR_SETUP_REQUIRED")
    return (
      <Alert
        level={level}
        icon={<DoorClosed aria-hidden />}
        title={reason === "SSO_REQUIRED" ? "Sign in with single sign-on" : "Set up a second factor"}
        action={
          <Suspense>
            <Barred reason={reason} />
          </Suspense>
        }
      >
        {reason === "SSO_REQUIRED"
          ? "This tenant requires single sign-on. If your identity provider is down, an owner can use a break-glass code."
          : describeError(error)}
      </Alert>
    );
  return (
    <Alert
      level={level}
      title={isUnreachable(error) ? "Can't reach Corvo" : "Couldn't load this"}
      action={
        <Button variant="primary" onClick={onRetry ?? (() => void router.invalidate())}>
          Try again
        </Button>
      }
    >
      {describeError(error)}
    </Alert>
  );
}

/** In place of a whole page: what is wrong with it decides what it says and where it leads. */
export function ProblemPage({ error }: { error: unknown }) {
  const bad = badSearch(error);
  return (
    <PageFrame>
      {bad ? (
        <BadLink error={bad} />
      ) : isUnreachable(error) ? (
        <NoAnswer error={error} />
      ) : isRefusal(error) ? (
        <Refused error={error} />
      ) : (
        <Crashed error={error} />
      )}
    </PageFrame>
  );
}

function BadLink({ error }: { error: BadSearch }) {
  usePageTitle("Invalid link");
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (
    <Alert
      icon={<Compass aria-hidden />}
      title="This link isn't valid"
      action={
        <Link to={path as "/"} search={{}} className={buttonClass("primary")}>
          Clear filters
        </Link>
      }
    >
      <code className="font-mono">{error.param}</code> can't be “{error.value}”. Use {error.expected}.
    </Alert>
  );
}

const TRY_EVERY_MS = 5_000;

/** Continues automatically as soon as the service answers. */
function NoAnswer({ error }: { error: unknown }) {
  const router = useRouter();
  const lost = isChunkLost(error);
  const [missing, setMissing] = useState(false);
  usePageTitle(missing ? "Couldn't load this page" : "Can't reach Corvo");

  async function again() {
    if (!(await answers())) return;
    if (!lost) void router.invalidate();
    else if (!reloadOnce()) setMissing(true);
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: one clock for as long as the page shows
  useEffect(() => {
    void again();
    const timer = window.setInterval(() => void again(), TRY_EVERY_MS);
    return () => window.clearInterval(timer);
  }, []);

  if (missing) {
    return (
      <Alert title="Couldn't load this page" action={reload}>
        A part of the console is missing. Reload the page to get the current version.
      </Alert>
    );
  }
  return (
    <Alert
      title="Can't reach Corvo"
      action={
        <Button variant="primary" onClick={() => void again()}>
          Try again
        </Button>
      }
    >
      Check your connection. This page loads as soon as Corvo responds.
    </Alert>
  );
}

function Refused({ error }: { error: unknown }) {
  usePageTitle("Couldn't load this page");
  return (
    <>
      <Problem error={error} level={1} />
      <Home />
    </>
  );
}

function Crashed({ error }: { error: unknown }) {
  usePageTitle("Something went wrong");
  return (
    <Alert
      icon={<CircleAlert aria-hidden />}
      title="Something went wrong"
      action={
        <>
          {reload}
          <Link to="/" className={buttonClass("secondary")}>
            Go to overview
          </Link>
        </>
      }
      snippet={
        <details className="text-12 text-ink-2">
          <summary className="mx-auto w-fit">Error details</summary>
          <pre className="mt-2 overflow-x-auto rounded-lg border border-line bg-sunken p-3 font-mono whitespace-pre-wrap wrap-anywhere">
            {error instanceof Error ? (error.stack ?? String(error)) : String(error)}
          </pre>
        </details>
      }
    >
      The console hit an error on this page. Your jobs aren't affected. If reloading doesn't help, send us the
      error details.
    </Alert>
  );
}

function Home() {
  return (
    <p className="-mt-10 pb-10 text-center">
      <Link to="/" className="text-13 font-medium text-accent-text underline-offset-2 hover:underline">
        Go to overview
      </Link>
    </p>
  );
}

export function NotFound({ what = "page", children }: { what?: string; children?: ReactNode }) {
  usePageTitle("Not found");
  return (
    <PageFrame>
      <EmptyState
        level={1}
        icon={<Compass aria-hidden />}
        title={`${what.charAt(0).toUpperCase()}${what.slice(1)} not found`}
        action={
          <Link to="/" className={buttonClass("primary")}>
            Go to overview
          </Link>
        }
      >
        {children ?? "It may have been deleted, or the link may be wrong."} You may also be signed in as
        someone who doesn't have access to it.
      </EmptyState>
    </PageFrame>
  );
}
