import { useQueryClient } from "@tanstack/react-query";
import { ShieldCheck } from "lucide-react";
import { lazy, Suspense } from "react";
import { Problem } from "~/components/problem";
import { Button } from "~/components/ui/button";
import { EmptyState } from "~/components/ui/empty";
import { describeError, refusalReason } from "~/data/control";

const Factors = lazy(async () => ({ default: (await import("~/routes/account")).Factors }));

/** What an operator's page shows in place of what it couldn't load. */
export function Refused({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const reason = refusalReason(error);
  if (reason === "SECOND_FACTOR_SETUP_REQUIRED") return <SetUp onRetry={onRetry} />;
  if (reason === "STEP_UP_REQUIRED")
    return (
      <EmptyState
        icon={<ShieldCheck aria-hidden />}
        title="Show your second factor"
        action={
          <Button variant="primary" onClick={onRetry}>
            Show second factor
          </Button>
        }
      >
        {describeError(error)}
      </EmptyState>
    );
  return <Problem error={error} onRetry={onRetry} />;
}

/** An operator without a second factor sets one up here: they may be in no tenant. */
function SetUp({ onRetry }: { onRetry: () => void }) {
  const client = useQueryClient();
  return (
    <>
      <EmptyState
        icon={<ShieldCheck aria-hidden />}
        title="Set up a second factor"
        action={
          <Button
            variant="primary"
            onClick={() => {
              void client.invalidateQueries({ queryKey: ["operator"] });
              onRetry();
            }}
          >
            Continue
          </Button>
        }
      >
        Operators need a second factor. Add a passkey or an authenticator app below, keep the recovery codes,
        and continue.
      </EmptyState>
      <Suspense>
        <Factors />
      </Suspense>
    </>
  );
}
