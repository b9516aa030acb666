// What stands behind the question mark of an address. People type it, edit it and keep it
// for years, so each page checks its own part and refuses what it does not know: a filter
// that is silently left out would show other jobs than were asked for.

type Raw = Record<string, unknown>;

/** A search parameter that its page does not take. */
export class BadSearch extends Error {
  readonly param: string;
  readonly value: string;
  /** What the page takes, as the end of a sentence. */
  readonly expected: string;

  constructor(param: string, value: unknown, expected: string) {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    super(`${param} can't be “${text}”. Use ${expected}.`);
    this.name = "BadSearch";
    this.param = param;
    this.value = text;
    this.expected = expected;
  }
}

/** The router wraps what a reader throws. */
export function badSearch(error: unknown): BadSearch | undefined {
  if (error instanceof BadSearch) return error;
  return error instanceof Error && error.cause instanceof BadSearch ? error.cause : undefined;
}

type Search<S> = { [Name in keyof S]?: S[Name] | undefined };

/**
 * Makes a page's reader of its search. The router hands every raw parameter through to
 * the page unless the reader names it, so those that `parse` does not return are unset.
 */
export function searchOf<S extends object>(parse: (raw: Raw) => S): (raw: Raw) => Search<S> {
  return (raw) => ({
    ...Object.fromEntries(Object.keys(raw).map((name) => [name, undefined])),
    ...parse(raw),
  });
}

/**
 * Reads one value as JSON, as the router does, but for numbers that would come out as
 * others: an id of digits alone stays as it is. What this throws is taken as text.
 */
export function exactJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (typeof value === "number" && String(value) !== text) throw new SyntaxError("a number that changes");
  return value;
}

/** One word or number; the router reads "42" as a number. */
export function text(raw: Raw, name: string): string | undefined {
  const value = raw[name];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string") return value.trim() || undefined;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new BadSearch(name, value, "a single value");
}

/** One of the words that the page knows. */
export function choice<Word extends string>(
  raw: Raw,
  name: string,
  words: readonly Word[],
): Word | undefined {
  const value = text(raw, name);
  const known = words.find((word) => word === value);
  if (value !== undefined && known === undefined) throw new BadSearch(name, value, oneOf(words));
  return known;
}

/** "a, b or c" */
export function oneOf(words: readonly string[]): string {
  return words.length < 2 ? (words[0] ?? "") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** A reader of parameters that may hold any text. */
export function texts<Name extends string>(...names: Name[]) {
  return searchOf(
    (raw) =>
      Object.fromEntries(names.map((name) => [name, text(raw, name)])) as Record<Name, string | undefined>,
  );
}
