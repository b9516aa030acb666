import { KeyRound } from "lucide-react";
import type { ReactNode } from "react";
import { Banner } from "~/components/ui/banner";
import { Button } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { Dialog } from "~/components/ui/dialog";

interface SecretDialogProps {
  secret: string;
  /** Where the key works. */
  url: string;
  title: string;
  children?: ReactNode;
  onClose: () => void;
}

/** Shows a key, once: only its own button closes it. */
export default function SecretDialog({ secret, url, title, children, onClose }: SecretDialogProps) {
  return (
    <Dialog
      open
      size="md"
      dismissible={false}
      onOpenChange={onClose}
      title={title}
      footer={
        <Button variant="primary" icon={<KeyRound aria-hidden />} onClick={onClose}>
          I saved this key
        </Button>
      }
    >
      <Banner tone="warn" title="Copy this key now">
        You won't be able to see it again. Store it in a secrets manager.
      </Banner>
      <CodeBlock label="API key" code={secret} wrap />
      {children}
      <CodeBlock
        label="environment"
        title="For a worker"
        language="shell"
        code={`export CORVO_URL=${url}\nexport CORVO_API_KEY=${secret}`}
        wrap
      />
    </Dialog>
  );
}
