import { Dialog as Base } from "@base-ui/react/dialog";
import { clsx } from "clsx";
import { X } from "lucide-react";
import { type ReactNode, useId, useRef } from "react";
import { Banner } from "./banner";
import { Button, type ButtonVariant } from "./button";

export interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  /** Buttons at the bottom, the main one last. */
  footer?: ReactNode;
  size?: "sm" | "md" | "lg";
  /** False for content that is shown once: only its own button may close it. */
  dismissible?: boolean;
  /** True for text without controls: people who scroll by keyboard must be able to reach it. */
  readable?: boolean;
}

const widths = { sm: "sm:max-w-md", md: "sm:max-w-xl", lg: "sm:max-w-3xl" } as const;

/** A modal dialog; a sheet from the bottom at phone width. */
export function Dialog({
  open,
  onOpenChange,
  title,
  description,
  children,
  footer,
  size = "sm",
  dismissible = true,
  readable = false,
}: DialogProps) {
  const opener = useOpener(open);
  return (
    <Base.Root open={open} onOpenChange={(next) => (next || dismissible) && onOpenChange(next)}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-overlay transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        {/* Toasts lie between the two, so what is beside the popup lets clicks through to them. */}
        <Base.Viewport className="pointer-events-none fixed inset-0 z-45 flex items-end justify-center overflow-y-auto sm:items-start sm:p-6 sm:pt-[12vh]">
          <Base.Popup
            data-modal
            finalFocus={opener}
            className={clsx(
              "pointer-events-auto flex max-h-[92dvh] w-full flex-col rounded-t-xl border border-line bg-surface shadow-3 outline-none sm:max-h-[76dvh] sm:rounded-xl",
              "transition-[opacity,transform] duration-150 data-ending-style:translate-y-3 data-ending-style:opacity-0 data-starting-style:translate-y-3 data-starting-style:opacity-0",
              widths[size],
            )}
          >
            <div className="flex items-start justify-between gap-4 px-5 pt-4 pb-1">
              <div className="min-w-0">
                <Base.Title className="text-16 font-semibold">{title}</Base.Title>
                {description ? (
                  <Base.Description className="mt-1 text-13 text-ink-2">{description}</Base.Description>
                ) : null}
              </div>
              {dismissible ? (
                <Base.Close
                  aria-label="Close"
                  className="-mr-1.5 grid size-7 shrink-0 place-items-center rounded-md text-ink-3 hover:bg-hover hover:text-ink"
                >
                  <X aria-hidden className="size-4" />
                </Base.Close>
              ) : null}
            </div>
            {children ? (
              <div
                tabIndex={readable ? 0 : undefined}
                className="flex min-h-0 flex-col gap-4 overflow-y-auto px-5 py-3 focus-visible:-outline-offset-2"
              >
                {children}
              </div>
            ) : null}
            {footer ? <div className="flex flex-wrap justify-end gap-2 px-5 pt-2 pb-4">{footer}</div> : null}
          </Base.Popup>
        </Base.Viewport>
      </Base.Portal>
    </Base.Root>
  );
}

/**
 * Where the focus was when the dialog opened, and goes again when it closes. Noted while
 * rendering: an input inside with autoFocus takes the focus before any effect runs.
 */
function useOpener(open: boolean): () => HTMLElement | null {
  const opener = useRef<HTMLElement>(null);
  const was = useRef(false);
  if (open && !was.current && document.activeElement instanceof HTMLElement)
    opener.current = document.activeElement;
  was.current = open;
  return () => (opener.current?.isConnected ? opener.current : null);
}

export interface FormDialogProps extends Omit<DialogProps, "open" | "onOpenChange" | "footer"> {
  onClose: () => void;
  /** What the button says. */
  submit: string;
  /** By the button or by Enter, while nothing is in the way. */
  onSubmit: () => void;
  busy: boolean;
  blockedBecause?: string | undefined;
  variant?: ButtonVariant;
  /** Why it was refused, if that is about no field. */
  failure?: string | undefined;
  /** More buttons, at the left. */
  more?: ReactNode;
  formClass?: string;
}

/** A form to fill in, with a button that sends it and one that does not. */
export function FormDialog({
  onClose,
  submit,
  onSubmit,
  busy,
  blockedBecause,
  variant = "primary",
  failure,
  more,
  formClass = "flex flex-col gap-4",
  children,
  ...rest
}: FormDialogProps) {
  const id = useId();
  return (
    <Dialog
      {...rest}
      open
      onOpenChange={() => onClose()}
      footer={
        <>
          {more}
          <Button onClick={() => onClose()}>Cancel</Button>
          <Button type="submit" form={id} variant={variant} busy={busy} blockedBecause={blockedBecause}>
            {submit}
          </Button>
        </>
      }
    >
      <form
        id={id}
        noValidate
        className={formClass}
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy && !blockedBecause) onSubmit();
        }}
      >
        {failure ? <Banner tone="danger" title={failure} className="col-span-full" /> : null}
        {children}
      </form>
    </Dialog>
  );
}
