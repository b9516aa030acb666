import { isLosslessNumber, parse, stringify } from "lossless-json";

// JSON of users is shown and edited without touching a digit: 64-bit ids and long
// decimals survive, which JSON.parse would round.

/** A JSON value whose numbers are kept as text. */
export type Json =
  | null
  | boolean
  | string
  | { isLosslessNumber: true; value: string }
  | Json[]
  | { [key: string]: Json };

export function parseLossless(text: string): Json {
  return parse(text) as Json;
}

export function printLossless(value: unknown, indent = 2): string {
  return stringify(value, undefined, indent) ?? "null";
}

/** The member of an object, still lossless; undefined if there is none. */
export function member(value: Json, name: string): Json | undefined {
  if (value === null || typeof value !== "object" || Array.isArray(value) || isLosslessNumber(value))
    return undefined;
  return (value as { [key: string]: Json })[name];
}

/** Turns lossless numbers into plain ones; for fields of ours, which are small. */
export function toPlain(value: unknown): unknown {
  if (isLosslessNumber(value)) return Number(value.value);
  if (Array.isArray(value)) return value.map(toPlain);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toPlain(inner)]));
  }
  return value;
}

/** What is wrong with a JSON text, or null. */
export function jsonProblem(text: string): string | null {
  try {
    parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : "Enter valid JSON.";
  }
}
