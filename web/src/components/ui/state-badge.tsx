import {
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePause,
  CirclePlay,
  CircleStop,
  Clock,
  type LucideIcon,
  OctagonX,
  RotateCw,
} from "lucide-react";
import { type JobState, stateWord } from "~/lib/states";
import { Badge, type Tone } from "./badge";

// Shape and word distinguish the states; the color is a third hint.
const looks: Record<JobState, { icon: LucideIcon; tone: Tone }> = {
  scheduled: { icon: Clock, tone: "violet" },
  pending: { icon: CircleDashed, tone: "neutral" },
  active: { icon: CirclePlay, tone: "info" },
  completed: { icon: CircleCheck, tone: "ok" },
  cancelling: { icon: CircleStop, tone: "info" },
  retrying: { icon: RotateCw, tone: "warn" },
  dead: { icon: OctagonX, tone: "danger" },
  cancelled: { icon: Ban, tone: "neutral" },
  held: { icon: CirclePause, tone: "pink" },
};

export function StateIcon({ state, className }: { state: JobState; className?: string }) {
  const Icon = looks[state].icon;
  return <Icon aria-hidden className={className} />;
}

export function StateBadge({ state, className }: { state: JobState; className?: string }) {
  const { icon: Icon, tone } = looks[state];
  return (
    <Badge tone={tone} icon={<Icon aria-hidden />} className={className}>
      {stateWord(state)}
    </Badge>
  );
}
