import { useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { Choice } from "~/components/ui/choice";
import { CodeBlock } from "~/components/ui/code";
import { Dialog, FormDialog } from "~/components/ui/dialog";
import { Field } from "~/components/ui/field";
import { newRequestId, useChange } from "~/data/admin-queries";
import { fieldErrors, otherError } from "~/data/control";
import { directory } from "~/data/directory";
import { inDays } from "~/lib/proto-time";

interface TokenDialogProps {
  tenant: string;
  connectionId: string;
  /** What a directory is told as its base URL. */
  endpoint: string;
  /** The connection has one already, which this one will replace. */
  second: boolean;
  onClose: () => void;
}

const lives = [
  { value: "90", label: "90 days" },
  { value: "365", label: "One year" },
  { value: "730", label: "Two years" },
];

/** Makes a token for a directory, and shows it once: then only its own button closes it. */
export default function TokenDialog({ tenant, connectionId, endpoint, second, onClose }: TokenDialogProps) {
  const [requestId] = useState(newRequestId);
  const [life, setLife] = useState("365");
  const create = useChange(
    tenant,
    () => directory.createScimToken({ tenant, requestId, connectionId, expiresAt: inDays(Number(life)) }),
    { quiet: true },
  );
  const secret = create.data?.secret;
  if (secret)
    return (
      <Dialog
        open
        size="md"
        dismissible={false}
        onOpenChange={onClose}
        title="Enter these at your directory"
        footer={
          <Button variant="primary" onClick={onClose}>
            I saved this token
          </Button>
        }
      >
        <Banner tone="warn" title="Copy this token now">
          You won't be able to see it again. Whoever has it decides who is a member here.
        </Banner>
        <CodeBlock label="Token" title="Token" code={secret} wrap />
        <CodeBlock label="Base URL" title="Base URL" code={endpoint} wrap />
        {second ? (
          <p className="text-13 text-ink-2">
            Once your directory calls with this token, revoke the other one. Both work until then.
          </p>
        ) : null}
      </Dialog>
    );
  return (
    <FormDialog
      onClose={onClose}
      title="New token"
      description="Your directory sends it with every call. It works for directory sync only."
      submit="Create token"
      onSubmit={() => create.mutate(undefined)}
      busy={create.isPending}
      failure={otherError(create.error)}
    >
      <Field
        label="Expires"
        hint="Replace it before: directory sync stops when it expires."
        error={fieldErrors(create.error).expires_at}
      >
        <Choice options={lives} value={life} onChange={setLife} />
      </Field>
    </FormDialog>
  );
}
