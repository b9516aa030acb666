import { toString as describe } from "cronstrue";

const macros: Record<string, string> = {
  "@yearly": "Once a year, on 1 January at midnight",
  "@annually": "Once a year, on 1 January at midnight",
  "@monthly": "On the first of every month at midnight",
  "@weekly": "Every Sunday at midnight",
  "@daily": "Every day at midnight",
  "@midnight": "Every day at midnight",
  "@hourly": "At the start of every hour",
};

/**
 * What a cron expression says, in words; undefined for one that says nothing. The words
 * only help: what runs, and when, is computed by the service.
 */
export function cronWords(expression: string): string | undefined {
  const text = expression.trim().replace(/\s+/g, " ");
  const macro = macros[text.toLowerCase()];
  if (macro) return macro;
  if (/^@every \S+$/.test(text)) return `Every ${text.slice("@every ".length)}`;
  try {
    const words = describe(text, {
      use24HourTimeFormat: true,
      verbose: false,
      throwExceptionOnParseError: true,
    });
    return words.charAt(0).toUpperCase() + words.slice(1);
  } catch {
    return undefined;
  }
}
