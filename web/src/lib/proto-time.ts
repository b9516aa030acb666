import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";

/** A time of the control API as a Date; undefined stays undefined. */
export function dateOf(at: Timestamp | undefined): Date | undefined {
  return at ? timestampDate(at) : undefined;
}

/** The time so many days from now, for the control API. */
export function inDays(days: number): Timestamp {
  return timestampFromDate(new Date(Date.now() + days * 24 * 3600 * 1000));
}
