import type { Minute } from "~/data/page-api";

export const measures = ["enqueued", "completed", "failed"] as const;
export type Measure = (typeof measures)[number];

export interface Rate {
  /** In the last minute that is over. */
  last: number;
  /** In the one that runs, so far. */
  running: number;
  peak: number;
  total: number;
  /** The height of each minute from 0 to 1, oldest first. */
  bars: readonly number[];
}

/** One measure over the minutes, the one that runs last. */
export function rate(minutes: readonly Minute[], measure: Measure): Rate {
  const values = minutes.map((minute) => minute[measure]);
  const peak = Math.max(0, ...values);
  return {
    last: values.at(-2) ?? 0,
    running: values.at(-1) ?? 0,
    peak,
    total: values.reduce((sum, value) => sum + value, 0),
    bars: values.map((value) => (peak > 0 ? value / peak : 0)),
  };
}
