import { useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { Entry } from "~/components/entry";
import { ProofForm } from "~/features/account/proof-form";
import { takeNext } from "~/lib/next";

/** The second step of a sign-in by email, for those who have a second factor. */
export function SigninVerifyPage() {
  const router = useRouter();
  const client = useQueryClient();
  return (
    <Entry
      title="Confirm it's you"
      description="Finish signing in with your second factor."
      below={
        <Link to="/signin" className="font-medium text-accent-text underline-offset-2 hover:underline">
          Start over
        </Link>
      }
    >
      <ProofForm
        onProved={({ joined }) => {
          client.clear();
          const next = takeNext();
          router.history.replace(joined ? `/${joined}` : (next ?? "/"));
        }}
      />
    </Entry>
  );
}
