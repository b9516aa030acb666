import { ListTree } from "lucide-react";
import type { Scope } from "~/data/token";
import { FirstJob } from "./first-job";

/** The jobs page of a namespace that never had a job. */
export default function NoJobs({ scope }: { scope: Scope }) {
  return (
    <FirstJob scope={scope} icon={<ListTree aria-hidden />} title="No jobs yet">
      Jobs in {scope.namespace} appear here as soon as you enqueue them.
    </FirstJob>
  );
}
