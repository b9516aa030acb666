import { Card } from "~/components/ui/card";
import { Time } from "~/components/ui/time";
import { UsedBar } from "~/components/ui/used-bar";
import type { LimitStatus } from "~/gen/corvo/cloud/v1/plan_pb";
import { limitFate, limitText, shareOf } from "~/lib/billing";
import { dateOf } from "~/lib/proto-time";

/** Where each limit stands, and what happens when it is reached. */
export function LimitsCard({ limits, overLimit }: { limits: readonly LimitStatus[]; overLimit: string }) {
  return (
    <Card
      title="Limits"
      description="How much of what the plan gives is used. Limits of a namespace show the fullest one."
    >
      <ul className="grid gap-x-8 gap-y-5 sm:grid-cols-2">
        {limits.map((limit) => {
          const resets = dateOf(limit.resetsAt);
          return (
            <li key={limit.name} className="flex min-w-0 flex-col gap-1">
              <span className="text-13 font-medium">{limit.title || limit.name}</span>
              <UsedBar share={limit.unlimited ? 0 : shareOf(limit.used, limit.max)} text={limitText(limit)} />
              <span className="text-12 text-ink-3">
                {limitFate(limit, overLimit)}
                {resets && !limit.unlimited ? (
                  <>
                    {" "}
                    Resets <Time at={resets} />.
                  </>
                ) : null}
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
