import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { Button, buttonClass } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { useChange } from "~/data/admin-queries";
import { describeError } from "~/data/control";
import { policies } from "~/data/policy";

/** How to go on where the tenant's sign-in policy refuses this session. */
export default function Barred({ reason }: { reason: string }) {
  const { tenant } = useParams({ strict: false });
  if (!tenant) return null;
  if (reason === "SECOND_FACTOR_SETUP_REQUIRED")
    return (
      <Link to="/$tenant/settings/account" params={{ tenant }} className={buttonClass("primary")}>
        Set up a second factor
      </Link>
    );
  return <SignInAgain tenant={tenant} />;
}

function SignInAgain({ tenant }: { tenant: string }) {
  const [asked, setAsked] = useState(false);
  const [code, setCode] = useState("");
  // biome-ignore lint/correctness/useHookAtTopLevel: a call of the service, no hook
  const enter = useChange(tenant, () => policies.useBreakGlassCode({ tenant, code }), {
    quiet: true,
    done: ({ codesLeft }) => `You can enter for an hour. Codes left: ${codesLeft}`,
  });
  return (
    <div className="flex flex-col items-center gap-4">
      <span className="flex flex-wrap justify-center gap-2">
        <a href={`/auth/oidc/start?tenant=${encodeURIComponent(tenant)}`} className={buttonClass("primary")}>
          Sign in with single sign-on
        </a>
        {asked ? null : <Button onClick={() => setAsked(true)}>Use a break-glass code</Button>}
      </span>
      {asked ? (
        <form
          className="flex w-full max-w-80 flex-col gap-3 text-left"
          onSubmit={(event) => {
            event.preventDefault();
            enter.mutate(undefined, { onSuccess: () => window.location.reload() });
          }}
        >
          <Field
            label="Break-glass code"
            hint="For owners who signed in by email. Every owner gets an email about it."
            error={enter.error ? describeError(enter.error) : undefined}
          >
            <Input autoFocus mono autoCapitalize="none" value={code} onChange={setCode} />
          </Field>
          <Button
            type="submit"
            variant="primary"
            busy={enter.isPending}
            blockedBecause={code.trim() ? undefined : "Enter a code."}
          >
            Enter for an hour
          </Button>
        </form>
      ) : null}
    </div>
  );
}
