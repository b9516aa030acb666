/** A time as the clocks of a zone show it, with the zone's name of that day: "Sat 21 Nov 2026, 09:00 GMT+1". */
export function timeIn(at: string, zone: string): string {
  const options: Intl.DateTimeFormatOptions = {
    weekday: "short",
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  };
  try {
    return new Intl.DateTimeFormat(undefined, { ...options, timeZone: zone }).format(new Date(at));
  } catch {
    // A zone that this browser does not know; the service does.
    return new Intl.DateTimeFormat(undefined, { ...options, timeZone: "UTC" }).format(new Date(at));
  }
}
