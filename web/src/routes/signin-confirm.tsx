import { useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { LoaderCircle, LogIn } from "lucide-react";
import { useEffect, useState } from "react";
import { Entry } from "~/components/entry";
import { Button, buttonClass } from "~/components/ui/button";
import { control, describeError } from "~/data/control";
import { askedHere } from "~/lib/asked";
import { takeToken } from "~/lib/fragment";
import { takeNext } from "~/lib/next";

type Outcome = { problem: string } | { tenants: string[] };

// A link works once, so it is followed once, however often React mounts the page.
let following: Promise<Outcome> | null = null;

async function follow(): Promise<Outcome> {
  const token = takeToken();
  if (!token) return { problem: "The link is not whole. Open it from the mail again, or copy all of it." };
  try {
    const answer = await control.auth.finishLogin({ token });
    return { tenants: answer.tenants };
  } catch (error) {
    return { problem: describeError(error) };
  }
}

/**
 * Follows the link of a sign-in mail: at once in the browser that asked for it, after a
 * click in any other.
 */
export function SigninConfirmPage() {
  const [wanted, setWanted] = useState(askedHere);
  const [problem, setProblem] = useState<string>();
  const router = useRouter();
  const client = useQueryClient();

  useEffect(() => {
    if (!wanted) return;
    let gone = false;
    following ??= follow();
    void following.then((outcome) => {
      if (gone) return;
      following = null;
      if ("problem" in outcome) {
        setProblem(outcome.problem);
        return;
      }
      client.clear();
      router.history.replace(takeNext() ?? "/");
    });
    return () => {
      gone = true;
    };
  }, [client, router, wanted]);

  if (!wanted) {
    return (
      <Entry
        title="Sign in with this link?"
        description="It was not asked for in this browser: it comes from a terminal, or from another one of yours. If you do not know where it comes from, close this page."
      >
        <Button variant="primary" size="lg" icon={<LogIn aria-hidden />} onClick={() => setWanted(true)}>
          Sign in
        </Button>
      </Entry>
    );
  }
  if (problem) {
    return (
      <Entry title="This link does not work" description={problem}>
        <div className="flex flex-wrap gap-3">
          <Link to="/signin" className={buttonClass("primary", "lg")}>
            Get a new link
          </Link>
          <Link to="/" className={buttonClass("ghost", "lg")}>
            I am signed in
          </Link>
        </div>
      </Entry>
    );
  }
  return (
    <Entry title="Signing you in" description="One moment.">
      <p role="status" className="flex items-center gap-2 text-13 text-ink-2">
        <LoaderCircle aria-hidden className="size-4 animate-spin" /> Checking your link…
      </p>
    </Entry>
  );
}
