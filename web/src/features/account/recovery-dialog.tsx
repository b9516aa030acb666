import { Download } from "lucide-react";
import { Banner } from "~/components/ui/banner";
import { Button, buttonClass } from "~/components/ui/button";
import { CopyButton } from "~/components/ui/copy";
import { Dialog } from "~/components/ui/dialog";

interface RecoveryDialogProps {
  codes: readonly string[];
  onClose: () => void;
}

/** Shows recovery codes, once. */
export default function RecoveryDialog({ codes, onClose }: RecoveryDialogProps) {
  const text = `${codes.join("\n")}\n`;
  return (
    <Dialog
      open
      dismissible={false}
      onOpenChange={onClose}
      title="Save your recovery codes"
      description="Each signs you in once, in the place of your second factor."
      footer={
        <Button variant="primary" onClick={onClose}>
          I saved these codes
        </Button>
      }
    >
      <div className="flex flex-col gap-4">
        <Banner tone="warn" title="These codes won't be shown again" />
        <ul aria-label="Recovery codes" className="grid gap-1 font-mono text-13 sm:grid-cols-2">
          {codes.map((code) => (
            <li key={code}>{code}</li>
          ))}
        </ul>
        <div className="flex gap-2">
          <CopyButton text={text}>Copy</CopyButton>
          <a
            className={buttonClass("secondary", "sm")}
            href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`}
            download="corvo-recovery-codes.txt"
          >
            <Download aria-hidden /> Download
          </a>
        </div>
      </div>
    </Dialog>
  );
}
