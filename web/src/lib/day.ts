import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";

/** The day of a time, where the reader is, as a date input has it; empty if there is none. */
export function dayText(at: Date | undefined): string {
  if (!at) return "";
  const two = (number: number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** The end of such a day; undefined if it is empty. */
export function endOfDay(day: string): Timestamp | undefined {
  return day ? timestampFromDate(new Date(`${day}T23:59:59`)) : undefined;
}
