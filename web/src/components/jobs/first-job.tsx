import { Link } from "@tanstack/react-router";
import { buttonClass } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState, type EmptyStateProps } from "~/components/ui/empty";
import type { Scope } from "~/data/token";

const enqueue = `curl "$CORVO_URL/api/v1/enqueue" -H "X-API-Key: $CORVO_API_KEY" \\
  -d '{"queue": "emails", "payload": {"to": "ada@example.com"}}'`;

/** Shown before the first job: how to enqueue it. */
export function FirstJob({ scope, ...rest }: EmptyStateProps & { scope: Scope }) {
  return (
    <EmptyState
      action={
        <Link
          to="/$tenant/$namespace"
          params={scope}
          search={{ view: "start" }}
          className={buttonClass("primary")}
        >
          Run your first job
        </Link>
      }
      snippet={<CodeBlock language="shell" label="Enqueue" code={enqueue} />}
      {...rest}
    />
  );
}
