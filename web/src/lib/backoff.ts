/**
 * How long to wait before try number `attempt` (from 1): full jitter over a doubling
 * window, so that many tabs do not come back at once. `random` is in [0, 1).
 */
export function backoff(attempt: number, random: number, base = 500, cap = 30_000): number {
  const window = Math.min(cap, base * 2 ** Math.min(attempt - 1, 16));
  return Math.round(base / 2 + random * (window - base / 2));
}
