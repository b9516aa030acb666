import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { describeError } from "~/data/control";
import { DataError } from "~/data/jobs-api";
import { pageReads } from "~/data/page-queries";
import type { Scope } from "~/data/token";
import { cronWords } from "~/lib/cron-words";
import { NextRuns } from "./next-runs";

// Typing an expression must not send a request per letter.
const TYPING_MS = 300;

interface PreviewProps {
  scope: Scope;
  cron: string;
  timezone: string;
}

/** What an expression means, while it is typed. */
export function Preview({ scope, cron, timezone }: PreviewProps) {
  const [asked, setAsked] = useState({ cron, timezone });
  useEffect(() => {
    const timer = window.setTimeout(() => setAsked({ cron, timezone }), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [cron, timezone]);
  const preview = useQuery({
    ...pageReads.preview(scope, asked.cron.trim(), asked.timezone.trim()),
    enabled: asked.cron.trim() !== "",
    placeholderData: (was) => was,
  });
  if (cron.trim() === "") return null;
  const words = cronWords(cron);
  return (
    <div aria-live="polite" className="rounded-lg border border-line bg-sunken/60 px-3.5 py-3">
      {preview.error ? (
        <p className="text-13 text-danger-text">{wrong(preview.error)}</p>
      ) : (
        <>
          <p className="text-13 font-medium">{words ?? "Next runs"}</p>
          <NextRuns runs={preview.data} timezone={asked.timezone.trim() || "UTC"} />
        </>
      )}
    </div>
  );
}

function wrong(error: unknown): string {
  const fields = error instanceof DataError ? error.fields : {};
  if (fields.cron) return `It ${fields.cron}`;
  return fields.timezone ?? describeError(error);
}
