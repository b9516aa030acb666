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
          I have kept it
        </Button>
      }
    >
      <Banner tone="warn" title="This is the only time it is shown">
        We keep a digest, from which nobody can make the key again. Put it into a secrets manager.
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
