import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { createRoot } from "react-dom/client";
import { Button } from "~/components/ui/button";
import { ProofForm } from "./proof-form";

/**
 * Asks for the second factor before a dangerous action, over whatever dialog the action
 * began in. True once it was shown; false if the person cancels.
 */
export function stepUp(): Promise<boolean> {
  asking ??= ask().finally(() => {
    asking = undefined;
  });
  return asking;
}

// Calls at the same time share one dialog.
let asking: Promise<boolean> | undefined;

function ask(): Promise<boolean> {
  const place = document.body.appendChild(document.createElement("div"));
  const root = createRoot(place);
  return new Promise<boolean>((resolve) => {
    function end(proved: boolean) {
      root.unmount();
      place.remove();
      resolve(proved);
    }
    root.render(
      <QueryClientProvider client={new QueryClient()}>
        <StepUpDialog onEnd={end} />
      </QueryClientProvider>,
    );
  });
}

/** A dialog of the browser's own: it lies over those of the page, whose focus it takes. */
function StepUpDialog({ onEnd }: { onEnd: (proved: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="step-up-title"
      className="m-auto w-full max-w-md rounded-xl border border-line bg-surface p-5 text-ink shadow-3 backdrop:bg-overlay"
      onCancel={(event) => {
        event.preventDefault();
        onEnd(false);
      }}
    >
      <h2 id="step-up-title" className="text-16 font-semibold">
        Confirm it's you
      </h2>
      <p className="mt-1 mb-5 text-13 text-ink-2">
        This action needs your second factor. It counts for ten minutes.
      </p>
      <ProofForm onProved={() => onEnd(true)} />
      <Button variant="ghost" className="mt-4" onClick={() => onEnd(false)}>
        Cancel
      </Button>
    </dialog>
  );
}
