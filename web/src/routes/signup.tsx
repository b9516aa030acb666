import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight, Check } from "lucide-react";
import { type FormEvent, useDeferredValue, useState } from "react";
import { Entry, MailMark } from "~/components/entry";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { Time } from "~/components/ui/time";
import { admin } from "~/data/admin";
import { describeError, fieldErrors, sentence } from "~/data/control";
import { nameProblem, suggestName } from "~/lib/names";

const emailForm = /^[^\s@]+@[^\s@]+\.?[^\s@]*$/;

/** Asks for an address and a name; the rest is done from the mail. */
export function SignupPage() {
  const [email, setEmail] = useState("");
  const [typed, setTyped] = useState<string | null>(null);
  const [left, setLeft] = useState({ email: false, tenant: false });
  const [tried, setTried] = useState(false);
  // Kept here: a call that is repeated forgets its answer.
  const [sent, setSent] = useState<{ expiresAt?: Timestamp }>();
  const tenant = typed ?? suggestFrom(email);
  const settled = useDeferredValue(tenant);
  const local = nameProblem(tenant);

  const check = useQuery({
    queryKey: ["signup", "name", settled],
    queryFn: ({ signal }) => admin.signup.checkName({ tenant: settled }, { signal }),
    enabled: settled.length >= 3 && nameProblem(settled) === null,
    staleTime: 15_000,
    retry: false,
  });
  const start = useMutation({
    mutationFn: () => admin.signup.start({ email: email.trim(), tenant }),
    onSuccess: setSent,
  });
  const refused = fieldErrors(start.error);

  if (sent) {
    return (
      <MailSent
        email={email.trim()}
        expiresAt={sent.expiresAt ? timestampDate(sent.expiresAt) : undefined}
        again={(done) => start.mutate(undefined, { onSuccess: done })}
        busy={start.isPending}
        problem={start.error ? describeError(start.error) : undefined}
        change={() => {
          setSent(undefined);
          start.reset();
        }}
      />
    );
  }

  const emailError =
    refused.email ??
    (email.trim() === ""
      ? tried
        ? "Enter your email address."
        : undefined
      : left.email && !emailForm.test(email.trim())
        ? "Enter a valid email address."
        : undefined);
  const taken =
    check.data && !check.data.available && settled === tenant
      ? sentence(check.data.problem || "This name is taken.")
      : undefined;
  const missing = tried && tenant === "" ? "Enter a name for your team or company." : taken;
  const tenantError = refused.tenant ?? (local && (left.tenant || tenant.length > 2) ? local : missing);
  const ready = emailForm.test(email.trim()) && tenant.length >= 3 && !local && !taken;

  function submit(event: FormEvent) {
    event.preventDefault();
    setLeft({ email: true, tenant: true });
    setTried(true);
    if (ready && !start.isPending) start.mutate();
  }

  return (
    <Entry
      title="Create your account"
      description="Run your first job in about a minute."
      below={
        <>
          Already have one?{" "}
          <Link to="/signin" className="font-medium text-accent-text underline-offset-2 hover:underline">
            Sign in
          </Link>
        </>
      }
    >
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        {start.error && !refused.email && !refused.tenant ? (
          <Banner tone="danger" title={describeError(start.error)} />
        ) : null}
        <Field label="Work email" error={emailError}>
          <Input
            size="lg"
            type="email"
            name="email"
            autoComplete="email"
            required
            autoFocus
            placeholder="you@company.com"
            value={email}
            onChange={setEmail}
            onBlur={() => setLeft((was) => ({ ...was, email: true }))}
          />
        </Field>
        <Field
          label="Tenant name"
          error={tenantError}
          hint={tenantError ? undefined : "Your team or company. It's part of your URL and can't be changed."}
        >
          <Input
            size="lg"
            name="tenant"
            autoComplete="organization"
            autoCapitalize="none"
            required
            placeholder="acme"
            value={tenant}
            onChange={(text) => setTyped(text.trim())}
            onBlur={() => setLeft((was) => ({ ...was, tenant: true }))}
          />
        </Field>
        <Preview url={check.data?.available && settled === tenant ? check.data.tenantUrl : undefined} />
        <Button type="submit" variant="primary" size="lg" busy={start.isPending} className="w-full">
          Continue
          <ArrowRight aria-hidden />
        </Button>
      </form>
    </Entry>
  );
}

/** The URL as it would be; it keeps its place while there is none. */
function Preview({ url }: { url: string | undefined }) {
  return (
    <div
      className="-mt-1 flex min-h-9 items-center gap-2 rounded-md border border-dashed border-line-strong px-3 py-1.5 text-12"
      aria-live="polite"
    >
      {url ? (
        <>
          <Check aria-hidden className="size-3.5 shrink-0 text-ok-text" />
          <span className="min-w-0 font-mono wrap-anywhere">
            <span className="sr-only">Free. Your URL will be </span>
            {url}
          </span>
        </>
      ) : (
        <span className="text-ink-3">Your URL appears here.</span>
      )}
    </div>
  );
}

interface MailSentProps {
  email: string;
  expiresAt: Date | undefined;
  again: (done: () => void) => void;
  busy: boolean;
  problem: string | undefined;
  change: () => void;
}

function MailSent({ email, expiresAt, again, busy, problem, change }: MailSentProps) {
  const [asked, setAsked] = useState(false);
  return (
    <Entry
      title="Check your email"
      description={
        <>
          We sent a link to <strong className="font-medium text-ink">{email}</strong>. Open it in this browser
          to finish signing up.
          {expiresAt ? (
            <>
              {" "}
              The link expires <Time at={expiresAt} />.
            </>
          ) : null}
        </>
      }
      below="Didn't get it? Check your spam folder, or check the address above for typos."
    >
      <div className="flex flex-col gap-4">
        <MailMark />
        {problem ? <Banner tone="danger" title={problem} /> : null}
        <div className="flex flex-wrap gap-2">
          <Button busy={busy} disabled={asked} onClick={() => again(() => setAsked(true))}>
            {asked ? "Sent again" : "Send again"}
          </Button>
          <Button variant="ghost" onClick={change}>
            Use a different email
          </Button>
        </div>
      </div>
    </Entry>
  );
}

// The first label of a company's domain is a good guess; a mail provider's is not.
const providers = new Set([
  "gmail",
  "googlemail",
  "outlook",
  "hotmail",
  "live",
  "yahoo",
  "icloud",
  "proton",
  "protonmail",
  "gmx",
  "web",
  "mail",
  "aol",
  "fastmail",
  "hey",
]);

function suggestFrom(email: string): string {
  const domain = /@([^\s@]+)\.[a-z]{2,}$/i.exec(email.trim())?.[1] ?? "";
  const label = suggestName(domain.split(".").at(-1) ?? "");
  return label.length >= 3 && !providers.has(label) ? label : "";
}
