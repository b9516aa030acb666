import { lazy, Suspense } from "react";

// Names are the control API's; pages of jobs do not wait for them, and do without while it is down.
const Name = lazy(() => import("./name").catch(() => ({ default: Id })));

function Id({ id }: { id: string }) {
  return id;
}

/** Who did something to a job: first an id, then a name if the viewer may see it. */
export function Who({ id }: { id: string }) {
  return (
    <Suspense fallback={id}>
      <Name id={id} />
    </Suspense>
  );
}
