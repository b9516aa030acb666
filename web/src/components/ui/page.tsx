import { useMatch } from "@tanstack/react-router";
import { clsx } from "clsx";
import { type ReactNode, useEffect } from "react";

export interface PageProps {
  /** The one h1 of the page, and the tab's title, when it is not that of the page's row. */
  title?: string;
  /** In place of the plain title, when it needs more than text. */
  heading?: ReactNode;
  description?: ReactNode;
  /** Buttons at the right. */
  actions?: ReactNode;
  /** Above the title: where this is. */
  above?: ReactNode;
  children: ReactNode;
  width?: "wide" | "text";
}

/** The frame of every page behind the sign-in. */
export function Page({ heading, description, actions, above, children, width = "wide", ...own }: PageProps) {
  const row = useMatch({ strict: false, select: (match) => match.staticData.title });
  const title = own.title ?? row ?? "";
  usePageTitle(title);
  return (
    <div
      className={clsx(
        "mx-auto flex w-full flex-col gap-5 px-4 py-5 sm:px-6 lg:px-8 lg:py-7",
        width === "wide" ? "max-w-7xl" : "max-w-4xl",
      )}
    >
      {above}
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-3">
        <div className="min-w-0">
          <h1 className="text-20 font-semibold wrap-anywhere">{heading ?? title}</h1>
          {description ? <div className="mt-0.5 max-w-2xl text-13 text-ink-2">{description}</div> : null}
        </div>
        {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
      </header>
      {children}
    </div>
  );
}

export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Corvo`;
  }, [title]);
}
