import { clsx } from "clsx";
import type { ReactNode } from "react";
import { highlight, type Language } from "~/lib/highlight";
import { CopyButton } from "./copy";

interface CodeBlockProps {
  code: string;
  language?: Language;
  /** What the code is; spoken, and shown above it. */
  title?: ReactNode;
  label?: string;
  /** What the copy button copies if not the code as shown (which may hide a secret). */
  copyText?: string;
  wrap?: boolean;
  className?: string;
  maxHeight?: string;
}

export function CodeBlock({
  code,
  language = "text",
  title,
  label = "Code",
  copyText,
  wrap,
  className,
  maxHeight = "max-h-112",
}: CodeBlockProps) {
  return (
    <figure
      className={clsx(
        "group relative min-w-0 overflow-hidden rounded-lg border border-line bg-code-bg",
        className,
      )}
    >
      {title ? (
        <figcaption className="flex h-9 items-center justify-between gap-2 border-b border-line pr-1.5 pl-3 text-12 text-ink-2">
          <span className="truncate">{title}</span>
          <CopyButton text={copyText ?? code} label={`Copy ${label.toLowerCase()}`} />
        </figcaption>
      ) : (
        <CopyButton
          text={copyText ?? code}
          label={`Copy ${label.toLowerCase()}`}
          className="absolute top-1.5 right-1.5 z-1 size-7! bg-code-bg!"
        />
      )}
      {/* A region that scrolls must be reachable by keyboard. */}
      <pre
        role="region"
        aria-label={label}
        tabIndex={0}
        className={clsx(
          "scroll-thin overflow-auto p-3 font-mono text-12 leading-5 focus-visible:-outline-offset-2",
          maxHeight,
          !title && "pr-10",
          wrap && "wrap-anywhere whitespace-pre-wrap",
        )}
      >
        <code>
          {highlight(code, language).map((token, index) => (
            <span key={index} className={token.kind ? `tok-${token.kind}` : undefined}>
              {token.text}
            </span>
          ))}
        </code>
      </pre>
    </figure>
  );
}

/** A short value in a line of text: an id, a name, a header. */
export function Code({ children, className }: { children: ReactNode; className?: string }) {
  return (
    <code
      className={clsx("rounded-sm bg-sunken px-1 py-0.5 font-mono text-[0.92em] wrap-anywhere", className)}
    >
      {children}
    </code>
  );
}
