import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { encode } from "uqr";
import { Problem } from "~/components/problem";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { CopyButton } from "~/components/ui/copy";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { account } from "~/data/account";
import { describeError, fieldErrors } from "~/data/control";
import type { StartTotpResponse } from "~/gen/corvo/cloud/v1/factor_pb";
import type { AddDialogProps } from "./passkey-dialog";

/** Sets up an authenticator app. */
export default function TotpDialog({ onClose, onAdded }: AddDialogProps) {
  const start = useQuery({
    queryKey: ["account", "totp"],
    queryFn: () => account.factors.startTotp({}),
    retry: false,
    // Each start is another secret.
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Add authenticator app"
      description="Scan the code with your app, then enter the six digits that it shows."
    >
      {start.error ? <Problem error={start.error} onRetry={() => void start.refetch()} /> : null}
      {start.data ? <Setup started={start.data} onAdded={onAdded} /> : null}
    </Dialog>
  );
}

function Setup({ started, onAdded }: Pick<AddDialogProps, "onAdded"> & { started: StartTotpResponse }) {
  const [code, setCode] = useState("");
  const finish = useMutation({
    mutationFn: () => account.factors.finishTotp({ factorId: started.factorId, code: code.trim() }),
    onSuccess: ({ recoveryCodes }) => onAdded(recoveryCodes),
  });
  const wrong = fieldErrors(finish.error).code;
  function submit(event: FormEvent) {
    event.preventDefault();
    if (code.trim() && !finish.isPending) finish.mutate();
  }
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-5">
      {finish.error && !wrong ? <Banner tone="danger" title={describeError(finish.error)} /> : null}
      <QrCode text={started.uri} />
      <p className="text-13 wrap-anywhere text-ink-2">
        No camera? Enter this key: <code className="font-mono">{started.secret}</code>{" "}
        <CopyButton text={started.secret} label="Copy the key" />
      </p>
      <Field label="Code" error={wrong}>
        <Input
          name="code"
          autoComplete="one-time-code"
          inputMode="numeric"
          placeholder="123456"
          value={code}
          onChange={setCode}
        />
      </Field>
      <Button type="submit" variant="primary" busy={finish.isPending}>
        Add authenticator app
      </Button>
    </form>
  );
}

/** Drawn here: the secret in it goes to nobody else. Always dark on light, as cameras want. */
function QrCode({ text }: { text: string }) {
  const { data, size } = encode(text, { border: 2 });
  const path = data.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : ""))).join("");
  return (
    <svg
      role="img"
      aria-label="QR code for your app"
      viewBox={`0 0 ${size} ${size}`}
      className="mx-auto size-48 rounded-md"
    >
      <path fill="#fff" d={`M0 0h${size}v${size}h-${size}z`} />
      <path fill="#000" d={path} />
    </svg>
  );
}
