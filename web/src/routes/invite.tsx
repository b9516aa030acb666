import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { CheckingLink, Entry, InvalidLink, MailMark } from "~/components/entry";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { roleName } from "~/data/access";
import { admin } from "~/data/admin";
import { control, describeError, refusalReason } from "~/data/control";
import { forgetAllBut, reads } from "~/data/queries";
import type { PreviewInvitationResponse } from "~/gen/corvo/cloud/v1/member_pb";
import { tokenHolder } from "~/lib/fragment";

const heldToken = tokenHolder();

/**
 * Follows the link of an invitation. The link makes an account for a new address; it opens
 * none that is there, so whoever has one signs in.
 */
export function InvitePage() {
  const [token] = useState(heldToken);
  const invitation = useQuery({
    queryKey: ["invitation", token],
    queryFn: ({ signal }) => admin.members.previewInvitation({ token }, { signal }),
    enabled: token !== "",
    retry: false,
    // Accepted, it is gone: asking again would show the page that says so.
    staleTime: Number.POSITIVE_INFINITY,
  });
  const identity = useQuery({ ...reads.identity(), retry: false });

  if (!token || invitation.error) {
    return (
      <InvalidLink error={invitation.error}>
        <Link to="/signin" className={buttonClass("primary", "lg")}>
          Sign in
        </Link>
      </InvalidLink>
    );
  }
  if (!invitation.data || identity.isPending) {
    return <CheckingLink title="Opening your invitation" />;
  }
  return <Invitation token={token} invitation={invitation.data} signedInAs={identity.data?.user?.email} />;
}

interface InvitationProps {
  token: string;
  invitation: PreviewInvitationResponse;
  signedInAs: string | undefined;
}

function Invitation({ token, invitation, signedInAs }: InvitationProps) {
  const { tenant, email, hasAccount } = invitation;
  const [name, setName] = useState("");
  const navigate = useNavigate();
  const client = useQueryClient();
  const accept = useMutation({
    mutationFn: () => admin.members.acceptInvitation({ token, name: name.trim() }),
    onSuccess: async (answer) => {
      forgetAllBut(client, "invitation");
      await navigate({ to: "/$tenant", params: { tenant: answer.tenant }, replace: true });
    },
  });
  const mine = signedInAs === email;
  // The session may be one that is good in a single tenant only.
  const mustSignIn = (hasAccount && !mine) || refusalReason(accept.error) === "SIGN_IN_FIRST";
  if (mustSignIn) return <SignInFirst token={token} invitation={invitation} signedInAs={signedInAs} />;

  function submit(event: FormEvent) {
    event.preventDefault();
    if (!accept.isPending) accept.mutate();
  }

  return (
    <Entry title={`Join ${tenant}`} description={<Asks invitation={invitation} />}>
      <form onSubmit={submit} className="flex flex-col gap-5">
        {accept.error ? <Banner tone="danger" title={describeError(accept.error)} /> : null}
        {signedInAs && !mine ? (
          <Banner tone="warn" title={`You're signed in as ${signedInAs}`}>
            Accepting signs you out and creates an account for {email}.
          </Banner>
        ) : null}
        {hasAccount ? null : (
          <Field label="Your name" note="optional" hint="Your team sees it next to your address.">
            <Input size="lg" name="name" autoComplete="name" autoFocus value={name} onChange={setName} />
          </Field>
        )}
        <Button type="submit" variant="primary" size="lg" busy={accept.isPending} className="w-full">
          Accept invitation
        </Button>
      </form>
    </Entry>
  );
}

function Asks({
  invitation: { tenant, email, roles, invitedBy },
}: {
  invitation: PreviewInvitationResponse;
}) {
  return (
    <>
      {invitedBy || "Your team"} invited <strong className="font-medium text-ink">{email}</strong> to join{" "}
      {tenant}.{" "}
      {roles.length > 0
        ? `${roles.length === 1 ? "Role" : "Roles"}: ${roles.map(roleName).join(", ").toLowerCase()}.`
        : null}
    </>
  );
}

/** The link does not open an account; a sign-in link to its address does. */
function SignInFirst({ token, invitation, signedInAs }: InvitationProps) {
  const { tenant, email } = invitation;
  const start = useMutation({ mutationFn: () => control.auth.startLogin({ invitation: token }) });
  if (start.data) {
    return (
      <Entry
        title="Check your email"
        description={
          <>
            We sent a sign-in link to <strong className="font-medium text-ink">{email}</strong>. Opening it
            signs you in and adds you to {tenant}.
          </>
        }
      >
        <MailMark />
      </Entry>
    );
  }
  return (
    <Entry title={`Sign in to join ${tenant}`} description={<Asks invitation={invitation} />}>
      <div className="flex flex-col gap-5">
        {start.error ? <Banner tone="danger" title={describeError(start.error)} /> : null}
        <p className="text-13 text-ink-2">
          {signedInAs && signedInAs !== email
            ? `You're signed in as ${signedInAs}. To accept, sign in to the account that was invited.`
            : "This address already has an account. To accept, sign in to it."}
        </p>
        <Button
          variant="primary"
          size="lg"
          busy={start.isPending}
          className="w-full"
          onClick={() => start.mutate()}
        >
          Send a sign-in link to {email}
        </Button>
      </div>
    </Entry>
  );
}
