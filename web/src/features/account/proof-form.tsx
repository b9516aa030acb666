import { useMutation, useQuery } from "@tanstack/react-query";
import { Fingerprint } from "lucide-react";
import { type FormEvent, useState } from "react";
import { Problem } from "~/components/problem";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Field, Input } from "~/components/ui/field";
import { account } from "~/data/account";
import { describeError, fieldErrors } from "~/data/control";
import type { ProveResponse, StartProofResponse } from "~/gen/corvo/cloud/v1/factor_pb";
import { dismissed, hasPasskeys, showPasskey } from "./passkey";

interface ProofFormProps {
  onProved: (answer: ProveResponse) => void;
}

/** Asks for a second factor: any that the person has. */
export function ProofForm({ onProved }: ProofFormProps) {
  const start = useQuery({
    queryKey: ["account", "proof"],
    queryFn: () => account.factors.startProof({}),
    retry: false,
    // A ceremony serves one dialog.
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  if (start.error) return <Problem error={start.error} onRetry={() => void start.refetch()} />;
  if (!start.data) return <p role="status">Checking your second factors…</p>;
  return <Ways ways={start.data} again={() => void start.refetch()} onProved={onProved} />;
}

interface WaysProps extends ProofFormProps {
  ways: StartProofResponse;
  again: () => void;
}

function Ways({ ways, again, onProved }: WaysProps) {
  const [recovery, setRecovery] = useState(!ways.totp && !ways.ceremony);
  const passkey = useMutation({
    mutationFn: async () => {
      const credentialJson = await showPasskey(ways.optionsJson);
      return await account.factors.prove({
        proof: { case: "passkey", value: { ceremony: ways.ceremony, credentialJson } },
      });
    },
    onSuccess: onProved,
    onError: again,
  });
  return (
    <div className="flex flex-col gap-5">
      {passkey.error && !dismissed(passkey.error) ? (
        <Banner tone="danger" title={describeError(passkey.error)} />
      ) : null}
      {ways.ceremony && hasPasskeys ? (
        <Button
          variant="primary"
          size="lg"
          busy={passkey.isPending}
          icon={<Fingerprint aria-hidden />}
          onClick={() => passkey.mutate()}
        >
          Use a passkey
        </Button>
      ) : null}
      {recovery || ways.totp ? (
        <CodeForm key={String(recovery)} recovery={recovery} onProved={onProved} />
      ) : null}
      {ways.recovery && !recovery ? (
        <Button variant="ghost" onClick={() => setRecovery(true)} className="self-start">
          Use a recovery code
        </Button>
      ) : null}
    </div>
  );
}

function CodeForm({ recovery, onProved }: ProofFormProps & { recovery: boolean }) {
  const [code, setCode] = useState("");
  const prove = useMutation({
    mutationFn: () =>
      account.factors.prove({
        proof: recovery ? { case: "recoveryCode", value: code } : { case: "totpCode", value: code },
      }),
    onSuccess: onProved,
  });
  const wrong = Object.values(fieldErrors(prove.error))[0];
  function submit(event: FormEvent) {
    event.preventDefault();
    if (code.trim() && !prove.isPending) prove.mutate();
  }
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-5">
      {prove.error && !wrong ? <Banner tone="danger" title={describeError(prove.error)} /> : null}
      <Field
        label={recovery ? "Recovery code" : "Code from your authenticator app"}
        hint={recovery ? "Each code can be used once." : undefined}
        error={wrong}
      >
        <Input
          size="lg"
          name="code"
          autoFocus
          autoComplete="one-time-code"
          inputMode={recovery ? "text" : "numeric"}
          placeholder={recovery ? "abcd-efgh-jkmn-pqrs" : "123456"}
          value={code}
          onChange={setCode}
        />
      </Field>
      <Button type="submit" variant="primary" size="lg" busy={prove.isPending}>
        Continue
      </Button>
    </form>
  );
}
