import { Ban, CircleCheck, CircleDashed, CirclePlay, LogOut, OctagonX } from "lucide-react";
import { Badge } from "~/components/ui/badge";
import type { Batch, ChainStatus } from "~/data/page-api";

const chains = {
  running: ["Running", "info", CirclePlay],
  completed: ["Completed", "ok", CircleCheck],
  exited: ["Exited early", "violet", LogOut],
  failed: ["Failed", "danger", OctagonX],
  cancelled: ["Cancelled", "neutral", Ban],
} as const;

export function ChainStatusBadge({ status }: { status: ChainStatus }) {
  const [word, tone, Icon] = chains[status];
  return (
    <Badge tone={tone} icon={<Icon aria-hidden />}>
      {word}
    </Badge>
  );
}

export function BatchStatus({ batch }: { batch: Batch }) {
  if (batch.status === "open")
    return (
      <Badge tone="violet" icon={<CircleDashed aria-hidden />}>
        Open
      </Badge>
    );
  if (batch.status === "sealed")
    return (
      <Badge tone="info" icon={<CirclePlay aria-hidden />}>
        Running
      </Badge>
    );
  return batch.dead > 0 ? (
    <Badge tone="danger" icon={<OctagonX aria-hidden />}>
      Finished with dead jobs
    </Badge>
  ) : (
    <Badge tone="ok" icon={<CircleCheck aria-hidden />}>
      Finished
    </Badge>
  );
}
