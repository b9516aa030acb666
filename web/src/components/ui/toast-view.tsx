import { Toast as Base } from "@base-ui/react/toast";
import { clsx } from "clsx";
import { CircleAlert, CircleCheck, Info, X } from "lucide-react";
import { useEffect } from "react";
import { buttonClass } from "./button";

export interface ToastOptions {
  title: string;
  description?: string;
  kind?: "ok" | "error" | "info";
  action?: { label: string; onClick: () => void };
}

const manager = Base.createToastManager();

// The manager forgets what it is told before somebody shows it.
let shown = () => {};
const mounted = new Promise<void>((resolve) => {
  shown = resolve;
});

export async function show({ title, description, kind = "ok", action }: ToastOptions): Promise<void> {
  await mounted;
  manager.add({
    title,
    description,
    type: kind,
    timeout: kind === "error" ? 10_000 : 5_000,
    priority: kind === "error" ? "high" : "low",
    ...(action ? { actionProps: { children: action.label, onClick: action.onClick } } : {}),
  });
}

const icons = {
  ok: <CircleCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-ok-text" />,
  error: <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-danger-text" />,
  info: <Info aria-hidden className="mt-0.5 size-4 shrink-0 text-info-text" />,
} as const;

export function ToastView() {
  // After the effects of the provider below, which listens from then on.
  useEffect(() => shown(), []);
  return (
    <Base.Provider toastManager={manager} limit={4}>
      <Base.Portal>
        {/* In the middle of the page, beside the sidebar: at the right are the buttons of rows.
            A dialog has its buttons at the bottom: beside one they are at the top, and below it. */}
        <Base.Viewport className="fixed dialog-open:top-3 dialog-open:bottom-auto dialog-open:z-42 right-3 bottom-18 z-60 lg:bottom-5 flex w-[calc(100vw-1.5rem)] flex-col gap-2 sm:right-auto sm:left-[calc(50%-11rem)] sm:w-88 lg:left-[calc(50%-3.75rem)]">
          <List />
        </Base.Viewport>
      </Base.Portal>
    </Base.Provider>
  );
}

function List() {
  const { toasts } = Base.useToastManager();
  return toasts.map((item) => (
    <Base.Root
      key={item.id}
      toast={item}
      swipeDirection="down"
      className={clsx(
        "w-full rounded-lg border border-line bg-raised text-ink shadow-3 transition-[opacity,transform] duration-200",
        "data-ending-style:translate-y-2 data-ending-style:opacity-0 data-limited:hidden data-starting-style:translate-y-2 data-starting-style:opacity-0",
      )}
    >
      <Base.Content className="flex items-start gap-2.5 py-2.5 pr-2 pl-3">
        {icons[(item.type as keyof typeof icons) ?? "ok"]}
        <div className="min-w-0 flex-1">
          <Base.Title className="text-13 font-medium" />
          <Base.Description className="text-12 wrap-anywhere text-ink-2" />
        </div>
        {item.actionProps ? <Base.Action className={buttonClass("secondary", "sm")} /> : null}
        {/* The library hides it until the stack of toasts is unfolded; ours lie side by side, and Tab reaches it. */}
        <Base.Close
          aria-hidden={false}
          aria-label="Dismiss"
          className="grid size-6 shrink-0 place-items-center rounded-md text-ink-3 hover:bg-hover hover:text-ink"
        >
          <X aria-hidden className="size-3.5" />
        </Base.Close>
      </Base.Content>
    </Base.Root>
  ));
}
