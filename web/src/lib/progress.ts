// Workers report progress in a form of their own. These forms are common enough to draw.

export interface Progress {
  /** From 0 to 1. */
  share: number;
  /** "2 of 3"; empty where only a share is known. */
  text: string;
  /** What the worker says that it is at. */
  note?: string;
}

const pairs = [
  ["current", "total"],
  ["done", "total"],
  ["done", "of"],
  ["completed", "total"],
  ["processed", "total"],
  ["step", "steps"],
] as const;
const percents = ["percent", "percentage", "pct"] as const;
const shares = ["progress", "fraction", "share"] as const;
const notes = ["message", "status", "note", "stage", "phase"] as const;

/** What a worker's report says, if it is of a form that can be drawn. */
export function progressOf(json: string | undefined): Progress | undefined {
  if (json === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (isNumber(value)) return ofNumber(value);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const report = value as Record<string, unknown>;
  const drawn = ofReport(report);
  const note = notes.map((name) => report[name]).find((text) => typeof text === "string" && text !== "");
  return drawn && typeof note === "string" ? { ...drawn, note } : drawn;
}

function ofReport(report: Record<string, unknown>): Progress | undefined {
  for (const [part, whole] of pairs) {
    const [done, of] = [report[part], report[whole]];
    if (isNumber(done) && isNumber(of) && of > 0)
      return {
        share: clamp(done / of),
        text: `${done.toLocaleString("en-US")} of ${of.toLocaleString("en-US")}`,
      };
  }
  for (const name of percents) {
    const value = report[name];
    if (isNumber(value)) return { share: clamp(value / 100), text: "" };
  }
  for (const name of shares) {
    const value = report[name];
    if (isNumber(value)) return ofNumber(value);
  }
  return undefined;
}

/** 0.4 is a share, 40 a percentage; what is above tells nothing. */
function ofNumber(value: number): Progress | undefined {
  if (value < 0 || value > 100) return undefined;
  return { share: value <= 1 ? value : value / 100, text: "" };
}

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const clamp = (share: number) => Math.max(0, Math.min(1, share));
