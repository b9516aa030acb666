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
import { part } from "~/data/reach";
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
  const find = useMutation({
    mutationFn: () => startOfSso(email.trim()),
    onSuccess: (found) => {
      if (!found) start.mutate();
    },
  });
  const refused = fieldErrors(start.error);

  if (find.data && start.isIdle) {
    return (
      <ToProvider
        email={email.trim()}
        href={next ? `${find.data}&next=${encodeURIComponent(next)}` : find.data}
        byMail={() => start.mutate()}
        back={() => find.reset()}
        below={below}
      />
    );
  }

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
            onClick={() => {
              start.reset();
              find.reset();
            }}
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
    if (!ok || find.isPending || start.isPending) return;
    start.reset();
    find.mutate();
  }

  return (
    <Entry
      title="Sign in"
      description="We'll email you a sign-in link, or take you to your company's single sign-on."
      below={below}
    >
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
        <Button
          type="submit"
          variant="primary"
          size="lg"
          busy={find.isPending || start.isPending}
          className="w-full"
        >
          Continue
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

/** Where the provider of an address's domain is started. Without an answer, a link is mailed. */
async function startOfSso(email: string): Promise<string> {
  try {
    const { findSignIn } = await part(() => import("~/data/domains"));
    return (await findSignIn(email)) ?? "";
  } catch {
    return "";
  }
}

interface ToProviderProps {
  email: string;
  href: string;
  byMail: () => void;
  back: () => void;
  below: React.ReactNode;
}

/** The company of an address has single sign-on. Members by invitation may prefer a link. */
function ToProvider({ email, href, byMail, back, below }: ToProviderProps) {
  const domain = email.slice(email.lastIndexOf("@") + 1);
  return (
    <Entry
      title="Single sign-on"
      description={
        <>
          People of <strong className="font-medium text-ink">{domain}</strong> sign in with their company's
          identity provider.
        </>
      }
      below={below}
    >
      <div className="flex flex-col gap-5">
        <Button
          variant="primary"
          size="lg"
          autoFocus
          icon={<ShieldCheck aria-hidden />}
          onClick={() => window.location.assign(href)}
          className="w-full"
        >
          Continue with SSO
        </Button>
        <Button size="lg" onClick={byMail} className="w-full">
          Email me a link instead
        </Button>
        <Button variant="ghost" icon={<ArrowLeft aria-hidden />} onClick={back} className="self-start">
          Use a different email
        </Button>
      </div>
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
