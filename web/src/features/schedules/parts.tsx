import { CirclePause, CirclePlay } from "lucide-react";
import { Badge } from "~/components/ui/badge";
import type { Schedule } from "~/data/page-api";

export function ScheduleState({ schedule }: { schedule: Schedule }) {
  return schedule.paused ? (
    <Badge tone="warn" icon={<CirclePause aria-hidden />}>
      Paused
    </Badge>
  ) : (
    <Badge tone="ok" icon={<CirclePlay aria-hidden />}>
      On
    </Badge>
  );
}
