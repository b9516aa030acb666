import { clsx } from "clsx";
import { CircleAlert, CircleCheck, Info, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";

const looks = {
  info: { icon: Info, className: "border-info-line bg-info-soft text-info-text" },
  ok: { icon: CircleCheck, className: "border-ok-line bg-ok-soft text-ok-text" },
  warn: { icon: TriangleAlert, className: "border-warn-line bg-warn-soft text-warn-text" },
  danger: { icon: CircleAlert, className: "border-danger-line bg-danger-soft text-danger-text" },
} as const;

interface BannerProps {
  tone?: keyof typeof looks;
  title: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
  className?: string;
}

/** A message about the whole page, with a link. */
export function Banner({ tone = "info", title, children, action, className }: BannerProps) {
  const { icon: Icon, className: look } = looks[tone];
  return (
    <div
      role={tone === "danger" ? "alert" : "status"}
      className={clsx(
        "flex flex-wrap items-start gap-x-3 gap-y-2 rounded-lg border px-3.5 py-2.5",
        look,
        className,
      )}
    >
      <Icon aria-hidden className="mt-0.5 size-4 shrink-0" />
      <div className="min-w-0 flex-1 basis-52 text-13">
        <p className="font-medium">{title}</p>
        {children ? <div className="mt-0.5 wrap-anywhere text-ink-2">{children}</div> : null}
      </div>
      {action}
    </div>
  );
}
