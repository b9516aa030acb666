import { Link } from "@tanstack/react-router";
import { ListTree } from "lucide-react";
import { buttonClass } from "~/components/ui/button";
import { CodeBlock } from "~/components/ui/code";
import { EmptyState } from "~/components/ui/empty";
import type { Scope } from "~/data/token";

/** The jobs page of a namespace that never had a job. */
export default function NoJobs({ scope }: { scope: Scope }) {
  return (
    <EmptyState
      icon={<ListTree aria-hidden />}
      title="No jobs yet"
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
      snippet={
        <CodeBlock
          language="shell"
          label="Enqueue"
          code={`curl "$CORVO_URL/api/v1/enqueue" -H "X-API-Key: $CORVO_API_KEY" \\\n  -d '{"queue": "emails", "payload": {"to": "ada@example.com"}}'`}
        />
      }
    >
      Jobs in {scope.namespace} appear here as soon as you enqueue them.
    </EmptyState>
  );
}
