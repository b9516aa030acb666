import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight, KeyRound, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { CheckingLink, Entry, InvalidLink } from "~/components/entry";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { CopyButton } from "~/components/ui/copy";
import { admin } from "~/data/admin";
import { type FreshKeys, holdKeys } from "~/data/onboarding";
import { forgetAllBut, reads } from "~/data/queries";
import { tokenHolder } from "~/lib/fragment";
import { maskKey } from "~/lib/snippets";

const heldToken = tokenHolder();

/**
 * Follows the link of the sign-up mail and shows the keys, this once. It says whose tenant
 * it will be and asks: the link may be somebody else's, and whoever follows it is signed
 * in as them.
 */
export function SignupConfirmPage() {
  const [token] = useState(heldToken);
  const client = useQueryClient();
  const preview = useQuery({
    queryKey: ["signup-link", token],
    queryFn: ({ signal }) => admin.signup.previewConfirm({ token }, { signal }),
    enabled: token !== "",
    retry: false,
    // Used, it is gone: asking again would show the page that says so.
    staleTime: Number.POSITIVE_INFINITY,
  });
  const identity = useQuery({ ...reads.identity(), retry: false });
  const confirm = useMutation({
    mutationFn: () => admin.signup.confirm({ token }),
    onSuccess: ({ tenant, namespace, tenantUrl, apiKey, token: management }) => {
      holdKeys({ tenant, namespace, tenantUrl, apiKey, token: management });
      // Whoever this browser was before, it is the new owner now.
      forgetAllBut(client, "signup-link");
    },
  });

  if (confirm.data) {
    const { tenant, namespace, tenantUrl, apiKey, token: management, ready } = confirm.data;
    return <Keys keys={{ tenant, namespace, tenantUrl, apiKey, token: management }} ready={ready} />;
  }
  const error = preview.error ?? confirm.error;
  if (!token || error) {
    return (
      <InvalidLink error={error}>
        <Link to="/signin" className={buttonClass("primary", "lg")}>
          Sign in
        </Link>
        <Link to="/signup" className={buttonClass("secondary", "lg")}>
          Sign up again
        </Link>
      </InvalidLink>
    );
  }
  if (!preview.data || identity.isPending) {
    return <CheckingLink title="Confirm your sign-up" />;
  }
  const { email, tenant, startedHere } = preview.data;
  const signedInAs = identity.data?.user?.email;
  return (
    <Entry
      title={`Create ${tenant}`}
      description={
        <>
          This signs you in as <strong className="font-medium text-ink">{email}</strong>, the owner of the new
          tenant.
        </>
      }
    >
      <div className="flex flex-col gap-5">
        {startedHere ? null : (
          <Banner tone="warn" title="This sign-up wasn't started in this browser">
            If {email} isn't your address, close this page.
          </Banner>
        )}
        {signedInAs && signedInAs !== email ? (
          <Banner tone="warn" title={`You're signed in as ${signedInAs}`}>
            Continuing signs you out of that account.
          </Banner>
        ) : null}
        <Button
          variant="primary"
          size="lg"
          busy={confirm.isPending}
          className="w-full"
          onClick={() => confirm.mutate()}
        >
          Create {tenant}
        </Button>
      </div>
    </Entry>
  );
}

function Keys({ keys, ready }: { keys: FreshKeys; ready: boolean }) {
  const [kept, setKept] = useState(false);
  return (
    <Entry
      title={`Welcome, ${keys.tenant}`}
      description="Your tenant is ready. Copy these two keys now. You won't be able to see them again."
    >
      <div className="flex flex-col gap-4">
        <Secret name="API key" use="for your code: enqueue and run jobs" value={keys.apiKey} />
        <Secret name="Management key" use="for Terraform and the command line" value={keys.token} />
        {ready ? null : <Banner tone="info" title="The keys start working in a few seconds." />}
        <label className="flex items-start gap-2.5 text-13 text-ink-2">
          <input
            type="checkbox"
            checked={kept}
            onChange={(event) => setKept(event.target.checked)}
            className="mt-0.5 size-4.5 accent-accent"
          />
          I saved both keys.
        </label>
        <Link
          to="/$tenant/$namespace"
          params={{ tenant: keys.tenant, namespace: keys.namespace }}
          className={buttonClass("primary", "lg", "w-full")}
        >
          {kept ? "Run your first job" : "Continue without saving"}
          <ArrowRight aria-hidden />
        </Link>
        <p className="flex items-start gap-2 text-12 text-ink-3">
          <TriangleAlert aria-hidden className="mt-0.5 size-3.5 shrink-0" />
          Lost a key? Create a new one under API keys and revoke the old one.
        </p>
      </div>
    </Entry>
  );
}

function Secret({ name, use, value }: { name: string; use: string; value: string }) {
  const [shown, setShown] = useState(false);
  return (
    <div className="rounded-lg border border-line bg-surface shadow-1">
      <div className="flex items-start gap-2 border-b border-line px-3 py-2 text-13">
        <KeyRound aria-hidden className="mt-0.5 size-4 shrink-0 text-accent-text" />
        <div className="flex min-w-0 flex-wrap items-baseline gap-x-2">
          <span className="font-medium">{name}</span>
          <span className="text-12 text-ink-3">{use}</span>
        </div>
      </div>
      <div className="flex items-center gap-2 px-3 py-2">
        <code
          className={`min-w-0 flex-1 font-mono text-12 ${shown ? "wrap-anywhere" : "truncate"}`}
          data-secret
        >
          {shown ? value : maskKey(value)}
        </code>
        <Button
          size="sm"
          variant="ghost"
          onClick={() => setShown(!shown)}
          aria-label={`${shown ? "Hide" : "Show"} the ${name}`}
        >
          {shown ? "Hide" : "Show"}
        </Button>
        <CopyButton text={value}>Copy</CopyButton>
      </div>
    </div>
  );
}
