import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Entry } from "~/components/entry";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { admin } from "~/data/admin";
import { describeError } from "~/data/control";
import { takeToken } from "~/lib/fragment";

// Read once: the address loses it, and React may mount the page twice.
let held: string | null = null;

/** Follows the link of an invitation; joining is a decision, so it asks for a click. */
export function InvitePage() {
  const [token] = useState(() => {
    held = takeToken() || held;
    return held ?? "";
  });
  const [name, setName] = useState("");
  const navigate = useNavigate();
  const client = useQueryClient();
  const accept = useMutation({
    mutationFn: () => admin.members.acceptInvitation({ token, name: name.trim() }),
    onSuccess: async ({ tenant }) => {
      client.clear();
      await navigate({ to: "/$tenant", params: { tenant }, replace: true });
    },
  });

  if (!token) {
    return (
      <Entry
        title="This link does not work"
        description="It is not whole. Open it from the mail again, or ask for a new invitation."
      >
        <Link to="/signin" className={buttonClass("primary", "lg")}>
          Sign in
        </Link>
      </Entry>
    );
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    if (!accept.isPending) accept.mutate();
  }

  return (
    <Entry
      title="Join your team"
      description="You were invited to a tenant on Corvo. Accepting signs this browser in."
    >
      <form onSubmit={submit} className="flex flex-col gap-5">
        {accept.error ? <Banner tone="danger" title={describeError(accept.error)} /> : null}
        <Field label="Your name" note="optional" hint="Shown to your team beside your address.">
          <Input
            size="lg"
            name="name"
            autoComplete="name"
            autoFocus
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </Field>
        <Button type="submit" variant="primary" size="lg" busy={accept.isPending} className="w-full">
          Accept invitation
        </Button>
      </form>
    </Entry>
  );
}
