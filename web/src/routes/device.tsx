import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import { Check, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { CheckingLink, Entry } from "~/components/entry";
import { Problem } from "~/components/problem";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Facts } from "~/components/ui/card";
import { Field, Input } from "~/components/ui/field";
import { Time } from "~/components/ui/time";
import { control, describeError, fieldErrors, isUnauthenticated } from "~/data/control";
import { reads } from "~/data/queries";
import type { PreviewDeviceLoginResponse } from "~/gen/corvo/cloud/v1/device_pb";

/**
 * Signs in a program that shows a code. The code is typed, never read from the address: a
 * link must not be able to bring somebody else's.
 */
export function DevicePage() {
  const identity = useQuery({ ...reads.identity(), retry: false });
  const [decided, setDecided] = useState<"approved" | "denied">();
  const preview = useMutation({
    mutationFn: (userCode: string) => control.auth.previewDeviceLogin({ userCode }),
  });
  if (isUnauthenticated(identity.error)) return <Navigate to="/signin" search={{ next: "/device" }} />;
  if (identity.error) return <Problem error={identity.error} onRetry={() => void identity.refetch()} />;
  if (!identity.data) return <CheckingLink title="Sign in a program" />;
  if (decided) {
    return (
      <Entry
        title={decided === "approved" ? "Approved" : "Denied"}
        description={
          decided === "approved"
            ? "The program signs in within seconds. You can close this page."
            : "The program was not signed in. You can close this page."
        }
      />
    );
  }
  const email = identity.data.user?.email ?? "";
  if (preview.data) return <Decide request={preview.data} email={email} onDecided={setDecided} />;
  return <EnterCode busy={preview.isPending} error={preview.error} onCode={(code) => preview.mutate(code)} />;
}

interface EnterCodeProps {
  busy: boolean;
  error: unknown;
  onCode: (code: string) => void;
}

function EnterCode({ busy, error, onCode }: EnterCodeProps) {
  const [code, setCode] = useState("");
  const refused = fieldErrors(error).user_code;
  function submit(event: FormEvent) {
    event.preventDefault();
    if (code.trim() && !busy) onCode(code);
  }
  return (
    <Entry title="Sign in a program" description="Enter the code that your terminal shows.">
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        {error && !refused ? <Banner tone="danger" title={describeError(error)} /> : null}
        <Field label="Code" error={refused}>
          <Input
            size="lg"
            name="user-code"
            autoFocus
            autoComplete="off"
            autoCapitalize="characters"
            placeholder="WDJB-MJHT"
            value={code}
            onChange={setCode}
          />
        </Field>
        <Button type="submit" variant="primary" size="lg" busy={busy}>
          Continue
        </Button>
      </form>
    </Entry>
  );
}

interface DecideProps {
  request: PreviewDeviceLoginResponse;
  email: string;
  onDecided: (what: "approved" | "denied") => void;
}

function Decide({ request, email, onDecided }: DecideProps) {
  const { userCode, clientName, ip, createdAt, tenants } = request;
  const approve = useMutation({
    mutationFn: () => control.auth.approveDeviceLogin({ userCode }),
    onSuccess: () => onDecided("approved"),
  });
  const deny = useMutation({
    mutationFn: () => control.auth.denyDeviceLogin({ userCode }),
    onSuccess: () => onDecided("denied"),
  });
  const error = approve.error ?? deny.error;
  return (
    <Entry
      title={`Sign in ${clientName}?`}
      description={`It can do what you, ${email}, can do in ${tenants.join(", ")}.`}
    >
      <div className="flex flex-col gap-5">
        {error ? <Banner tone="danger" title={describeError(error)} /> : null}
        <Banner tone="warn" title="Approve only if you started this yourself">
          Somebody who sent you this code would get your access.
        </Banner>
        <Facts
          items={[
            { label: "Code", value: userCode },
            { label: "Program", value: clientName },
            { label: "IP address", value: ip },
            { label: "Requested", value: createdAt ? <Time at={timestampDate(createdAt)} /> : "–" },
          ]}
        />
        <div className="flex gap-3">
          <Button
            variant="primary"
            size="lg"
            busy={approve.isPending}
            icon={<Check aria-hidden />}
            onClick={() => approve.mutate()}
          >
            Approve
          </Button>
          <Button size="lg" busy={deny.isPending} icon={<X aria-hidden />} onClick={() => deny.mutate()}>
            Deny
          </Button>
        </div>
      </div>
    </Entry>
  );
}
