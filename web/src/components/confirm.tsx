import { type ReactNode, useState } from "react";
import { Banner } from "~/components/ui/banner";
import { Button, type ButtonVariant } from "~/components/ui/button";
import { CopyButton } from "~/components/ui/copy";
import { Dialog } from "~/components/ui/dialog";
import { Field, Input } from "~/components/ui/field";
import { describeError } from "~/data/control";

export interface ConfirmProps {
  onClose: () => void;
  title: string;
  /** What will happen, to what, and whether it can be undone. */
  children: ReactNode;
  confirmLabel: string;
  /** What the other button says. */
  cancelLabel?: string;
  variant?: ButtonVariant;
  /** The text to type before the button works; for what cannot be undone. */
  typeToConfirm?: string;
  /** Resolves when done; a rejection is shown in the dialog, which stays open. */
  onConfirm: () => Promise<unknown> | undefined;
}

/** Confirmation before a destructive action; loaded on demand. */
export default function Confirm({
  onClose,
  title,
  children,
  confirmLabel,
  cancelLabel = "Cancel",
  variant = "danger",
  typeToConfirm,
  onConfirm,
}: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const ready = !typeToConfirm || typed.trim() === typeToConfirm;

  async function confirm() {
    if (!ready || busy) return;
    setBusy(true);
    setFailure(undefined);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setFailure(describeError(error));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Dialog
      open
      onOpenChange={() => onClose()}
      title={title}
      footer={
        <>
          <Button onClick={() => onClose()}>{cancelLabel}</Button>
          <Button
            variant={variant}
            busy={busy}
            onClick={confirm}
            blockedBecause={ready ? undefined : `Type ${typeToConfirm} first.`}
          >
            {confirmLabel}
          </Button>
        </>
      }
    >
      <div className="text-13 text-ink-2">{children}</div>
      {typeToConfirm ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void confirm();
          }}
        >
          <Field
            label={
              <>
                Type <code className="rounded-sm bg-sunken px-1 font-mono text-12">{typeToConfirm}</code>{" "}
                <CopyButton text={typeToConfirm} label="Copy name" /> to confirm
              </>
            }
          >
            <Input mono value={typed} onChange={setTyped} />
          </Field>
        </form>
      ) : null}
      {failure ? <Banner tone="danger" title={failure} /> : null}
    </Dialog>
  );
}
