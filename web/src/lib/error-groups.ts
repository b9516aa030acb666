// Errors that differ only in ids, numbers and quoted words are one error that happened
// often. The service keeps the texts; the grouping is the console's.

/** Errors that read the same. */
export interface ErrorGroup<Row> {
  /** What they have in common; also their name in the URL. */
  pattern: string;
  /** The first of them, as it was reported. */
  sample: string;
  rows: Row[];
}

const FIRST_LINE_MAX = 200;

/** The first line of an error with what varies taken out. */
export function errorPattern(text: string): string {
  const line = (text.split("\n", 1)[0] ?? "").trim().slice(0, FIRST_LINE_MAX);
  return (
    line
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, "…")
      .replace(/\b(?:job|batch|chn|sched)_[0-9a-z]+\b/gi, "…")
      .replace(/\b0x[0-9a-f]+\b/gi, "…")
      .replace(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/gi, "…")
      // A status of HTTP or SMTP tells errors apart; other numbers do not.
      .replace(/(?<![\w.])\d+(?:\.\d+)*(?![\w.])/g, (digits) => (/^[2-5]\d\d$/.test(digits) ? digits : "…"))
      .replace(/-\d+\b/g, "-…")
  );
}

/** Groups rows by the pattern of their error, the largest group first. */
export function errorGroups<Row extends { last_error?: string }>(rows: readonly Row[]): ErrorGroup<Row>[] {
  const groups = new Map<string, ErrorGroup<Row>>();
  for (const row of rows) {
    const sample = row.last_error ?? "";
    const pattern = errorPattern(sample);
    const group = groups.get(pattern);
    if (group) group.rows.push(row);
    else groups.set(pattern, { pattern, sample, rows: [row] });
  }
  return [...groups.values()].sort((a, b) => b.rows.length - a.rows.length);
}
