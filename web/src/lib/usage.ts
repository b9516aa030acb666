// How usage can be looked at; also the words of its address.
export const usagePeriods = ["1h", "24h", "7d", "30d"] as const;
export const usageGroupings = ["queue", "model", "provider"] as const;

export type UsagePeriod = (typeof usagePeriods)[number];
export type UsageGrouping = (typeof usageGroupings)[number];
