import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ArrowLeft, ArrowRight, ShieldCheck } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Entry, MailMark } from "~/components/entry";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { Time } from "~/components/ui/time";
import { control, describeError, fieldErrors } from "~/data/control";
import { nameProblem } from "~/lib/names";
import { rememberNext } from "~/lib/next";
import { signinProblemText } from "~/lib/signin-search";

const route = getRouteApi("/signin");

/** By a one-time link, or through the tenant's own provider. */
export function SigninPage() {
  const { next, problem: code, tenant } = route.useSearch();
  const problem = signinProblemText(code);
  const [way, setWay] = useState<"mail" | "sso">(tenant ? "sso" : "mail");
  const below = (
    <>
      New here?{" "}
      <Link to="/signup" className="font-medium text-accent-text underline-offset-2 hover:underline">
        Create an account
      </Link>
    </>
  );
  return way === "mail" ? (
    <ByMail next={next} problem={problem} below={below} other={() => setWay("sso")} />
  ) : (
    <BySso initial={tenant ?? ""} problem={problem} below={below} other={() => setWay("mail")} />
  );
}

interface WayProps {
  problem: string | undefined;
  below: React.ReactNode;
  other: () => void;
}

function ByMail({ next, problem, below, other }: WayProps & { next: string | undefined }) {
  const [email, setEmail] = useState("");
  const [invalid, setInvalid] = useState(false);
  const start = useMutation({
    mutationFn: () => control.auth.startLogin({ email: email.trim() }),
    onSuccess: () => rememberNext(next),
  });
  const refused = fieldErrors(start.error);

  if (start.data) {
    return (
      <Entry
        title="Check your email"
        description={
          <>
            If <strong className="font-medium text-ink">{email.trim()}</strong> belongs to a member, a sign-in
            link is on its way.{" "}
            {start.data.expiresAt ? (
              <>
                It expires <Time at={timestampDate(start.data.expiresAt)} /> and can be used once.
              </>
            ) : (
              "It can be used once."
            )}
          </>
        }
        below={below}
      >
        <div className="flex flex-col gap-4">
          <MailMark />
          <Button
            variant="ghost"
            icon={<ArrowLeft aria-hidden />}
            onClick={() => start.reset()}
            className="self-start"
          >
            Use a different email
          </Button>
        </div>
      </Entry>
    );
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    const ok = /^[^\s@]+@[^\s@]+$/.test(email.trim());
    setInvalid(!ok);
    if (ok && !start.isPending) start.mutate();
  }

  return (
    <Entry title="Sign in" description="We'll email you a sign-in link. No password needed." below={below}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        {problem ? <Banner tone="warn" title={problem} /> : null}
        {start.error && !refused.email ? <Banner tone="danger" title={describeError(start.error)} /> : null}
        <Field
          label="Email"
          error={refused.email ?? (invalid ? "Enter the email address you signed up with." : undefined)}
        >
          <Input
            size="lg"
            type="email"
            name="email"
            autoComplete="email"
            autoFocus
            placeholder="name@company.com"
            value={email}
            onChange={(text) => {
              setEmail(text);
              setInvalid(false);
            }}
          />
        </Field>
        <Button type="submit" variant="primary" size="lg" busy={start.isPending} className="w-full">
          Email me a link
        </Button>
        <div className="flex items-center gap-3 text-12 text-ink-3" aria-hidden>
          <span className="h-px flex-1 bg-line" />
          or
          <span className="h-px flex-1 bg-line" />
        </div>
        <Button size="lg" icon={<ShieldCheck aria-hidden />} onClick={other} className="w-full">
          Continue with SSO
        </Button>
      </form>
    </Entry>
  );
}

function BySso({ initial, problem, below, other }: WayProps & { initial: string }) {
  const [tenant, setTenant] = useState(initial);
  const [error, setError] = useState<string>();

  function submit(event: FormEvent) {
    event.preventDefault();
    const name = tenant.trim().toLowerCase();
    const wrong = name === "" ? "Enter your tenant name." : nameProblem(name);
    setError(wrong ?? undefined);
    // A page of the server: it sends the browser on to the tenant's provider.
    if (!wrong) window.location.assign(`/auth/oidc/start?tenant=${encodeURIComponent(name)}`);
  }

  return (
    <Entry title="Single sign-on" description="Sign in with your company's identity provider." below={below}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        {problem ? <Banner tone="warn" title={problem} /> : null}
        <Field label="Tenant name" hint="The name in your tenant URL, for example acme." error={error}>
          <Input
            size="lg"
            name="tenant"
            autoFocus
            autoCapitalize="none"
            autoComplete="organization"
            placeholder="acme"
            value={tenant}
            onChange={setTenant}
          />
        </Field>
        <Button type="submit" variant="primary" size="lg" className="w-full">
          Continue
          <ArrowRight aria-hidden />
        </Button>
        <Button variant="ghost" icon={<ArrowLeft aria-hidden />} onClick={other} className="self-start">
          Sign in with email instead
        </Button>
      </form>
    </Entry>
  );
}
