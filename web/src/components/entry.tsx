import { LoaderCircle, MailCheck } from "lucide-react";
import type { ReactNode } from "react";
import { describeError } from "~/data/control";
import { Mark } from "./logo";
import { usePageTitle } from "./ui/page";

interface EntryProps {
  title: string;
  description?: ReactNode;
  children?: ReactNode;
  /** Below the form: the other way to sign in. */
  below?: ReactNode;
}

/** The frame of the pages before the sign-in. */
export function Entry({ title, description, children, below }: EntryProps) {
  usePageTitle(title);
  return (
    <div className="grid min-h-dvh grid-cols-[minmax(0,1fr)] lg:grid-cols-[minmax(0,1fr)_minmax(0,26rem)] xl:grid-cols-[minmax(0,1fr)_minmax(0,34rem)]">
      <main id="main" className="flex flex-col px-5 py-6 sm:px-10">
        <a href="/" className="inline-flex items-center gap-2 self-start rounded-md">
          <Mark className="size-7" />
          <span className="text-16 font-semibold tracking-tight">Corvo</span>
        </a>
        <div className="mx-auto flex w-full max-w-sm flex-1 animate-rise flex-col justify-center py-12">
          <h1 className="text-26 font-semibold tracking-tight">{title}</h1>
          {description ? <div className="mt-2 text-14 text-ink-2">{description}</div> : null}
          {children ? <div className="mt-7">{children}</div> : null}
          {below ? <div className="mt-7 border-t border-line pt-5 text-13 text-ink-2">{below}</div> : null}
        </div>
      </main>
      <Side />
    </div>
  );
}

/** Shown while a link is being checked. */
export function CheckingLink(props: Pick<EntryProps, "title" | "description">) {
  return (
    <Entry {...props}>
      <p role="status" className="flex items-center gap-2 text-13 text-ink-2">
        <LoaderCircle aria-hidden className="size-4 animate-spin" /> Checking your link…
      </p>
    </Entry>
  );
}

/** A link that does not work, by the error or because a part of it is missing, and other ways on. */
export function InvalidLink({ error, children }: { error: unknown; children: ReactNode }) {
  return (
    <Entry
      title="This link isn't valid"
      description={
        error
          ? describeError(error)
          : "The link is incomplete. Open it from the email, or copy the whole link."
      }
    >
      <div className="flex flex-wrap gap-2">{children}</div>
    </Entry>
  );
}

/** Shows at a glance that an email is on its way. */
export function MailMark() {
  return (
    <div className="grid size-12 place-items-center rounded-xl border border-line bg-surface text-accent-text shadow-1">
      <MailCheck aria-hidden className="size-6" />
    </div>
  );
}

const rows = [
  ["emails.send", "completed", "4 ms"],
  ["invoices.render", "completed", "61 ms"],
  ["thumbnails", "active", "1.2 s"],
  ["webhooks.deliver", "retrying in 5 s", "503"],
] as const;

// The panel at the side keeps its dark look in both themes: it is a picture.
function Side() {
  return (
    <aside
      aria-label="About Corvo"
      data-theme="dark"
      className="entry-panel relative hidden flex-col justify-between overflow-hidden border-l border-line p-10 text-ink lg:flex"
    >
      <div>
        <p className="max-w-sm text-26 leading-9 font-semibold tracking-tight text-balance">
          Background jobs that never get lost.
        </p>
        <p className="mt-3 max-w-sm text-14 text-ink-2">
          Every acknowledged job is stored on a majority of nodes. Corvo runs jobs in order, retries those
          that fail, and keeps them for as long as they take.
        </p>
      </div>
      <div aria-hidden className="overflow-hidden rounded-xl border border-line bg-surface/70 shadow-3">
        <div className="border-b border-line px-4 py-2.5 font-mono text-12 text-ink-3">
          <span className="tok-word">curl</span> -d{" "}
          <span className="tok-string">{`'{"queue":"emails.send"}'`}</span> …/api/v1/enqueue
        </div>
        {rows.map(([queue, state, took]) => (
          <div
            key={queue}
            className="grid grid-cols-[minmax(0,1fr)_6.75rem_2.5rem] items-center gap-3 border-b border-line px-4 py-2.5 text-13 last:border-0"
          >
            <span className="truncate font-mono text-12">{queue}</span>
            <span
              className={
                state === "completed"
                  ? "text-ok-text"
                  : state === "active"
                    ? "text-info-text"
                    : "text-warn-text"
              }
            >
              {state}
            </span>
            <span className="nums text-right text-12 text-ink-3">{took}</span>
          </div>
        ))}
      </div>
      <ul className="grid gap-2 text-13 text-ink-2">
        <li>Every acknowledged job is synced to a quorum.</li>
        <li>Plain HTTP from any language. No broker to run.</li>
        <li>Tenants can't see or slow down each other.</li>
      </ul>
    </aside>
  );
}
