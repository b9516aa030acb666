import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { LogIn } from "lucide-react";
import { useEffect, useState } from "react";
import { CheckingLink, Entry, InvalidLink } from "~/components/entry";
import { Button, buttonClass } from "~/components/ui/button";
import { control } from "~/data/control";
import { forgetAllBut } from "~/data/queries";
import { tokenHolder } from "~/lib/fragment";
import { takeNext } from "~/lib/next";

const heldToken = tokenHolder();

/**
 * Follows the link of a sign-in mail: at once in the browser that asked for this very
 * link, after a click in any other. A link that somebody sent on would otherwise sign
 * people in as its sender without a word.
 */
export function SigninConfirmPage() {
  const [token] = useState(heldToken);
  const router = useRouter();
  const client = useQueryClient();
  const preview = useQuery({
    queryKey: ["signin-link", token],
    queryFn: ({ signal }) => control.auth.previewLogin({ token }, { signal }),
    enabled: token !== "",
    retry: false,
    // Used, it is gone: asking again would show the page that says so.
    staleTime: Number.POSITIVE_INFINITY,
  });
  const finish = useMutation({
    mutationFn: () => control.auth.finishLogin({ token }),
    onSuccess: ({ joined, secondFactorRequired }) => {
      if (secondFactorRequired) {
        void router.navigate({ to: "/signin/verify", replace: true });
        return;
      }
      forgetAllBut(client, "signin-link");
      const next = takeNext();
      router.history.replace(joined ? `/${joined}` : (next ?? "/"));
    },
  });
  const { mutate, isIdle } = finish;
  const startedHere = preview.data?.startedHere ?? false;
  useEffect(() => {
    if (startedHere && isIdle) mutate();
  }, [startedHere, isIdle, mutate]);

  const error = preview.error ?? finish.error;
  if (!token || error) {
    return (
      <InvalidLink error={error}>
        <Link to="/signin" className={buttonClass("primary", "lg")}>
          Get a new link
        </Link>
        <Link to="/" className={buttonClass("ghost", "lg")}>
          I'm signed in
        </Link>
      </InvalidLink>
    );
  }
  if (preview.data && !startedHere) {
    const { email, joins } = preview.data;
    return (
      <Entry
        title={`Sign in as ${email}?`}
        description={
          joins
            ? `This also adds you to ${joins}. This link wasn't requested in this browser. If this isn't your address, close this page.`
            : "This link wasn't requested in this browser. If this isn't your address, close this page."
        }
      >
        <Button
          variant="primary"
          size="lg"
          busy={finish.isPending || finish.isSuccess}
          icon={<LogIn aria-hidden />}
          onClick={() => mutate()}
        >
          Sign in
        </Button>
      </Entry>
    );
  }
  return <CheckingLink title="Signing you in" description="One moment." />;
}
