import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

// The tokens of styles.css promise WCAG AA in both themes; this computes it.

const css = readFileSync(new URL("./styles.css", import.meta.url), "utf8");

function tokens(selector: string): Map<string, [number, number, number]> {
  const begin = css.indexOf(selector);
  const block = css.slice(begin, css.indexOf("\n}", begin));
  const found = new Map<string, [number, number, number]>();
  for (const match of block.matchAll(/--color-([\w-]+): oklch\(([\d.]+) ([\d.]+) ([\d.]+)\);/g))
    found.set(match[1] ?? "", [Number(match[2]), Number(match[3]), Number(match[4])]);
  for (const match of block.matchAll(/--color-([\w-]+): oklch\(([\d.]+) 0 0\);/g))
    found.set(match[1] ?? "", [Number(match[2]), 0, 0]);
  return found;
}

/** Relative luminance of an OKLCH colour, by way of linear sRGB. */
function luminance([l, c, h]: [number, number, number]): number {
  const a = c * Math.cos((h * Math.PI) / 180);
  const b = c * Math.sin((h * Math.PI) / 180);
  const [x, y, z] = [
    (l + 0.3963377774 * a + 0.2158037573 * b) ** 3,
    (l - 0.1055613458 * a - 0.0638541728 * b) ** 3,
    (l - 0.0894841775 * a - 1.291485548 * b) ** 3,
  ];
  const clamp = (value: number) => Math.min(1, Math.max(0, value));
  const red = clamp(4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z);
  const green = clamp(-1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z);
  const blue = clamp(-0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a: [number, number, number], b: [number, number, number]): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const grounds = ["bg", "surface", "raised", "sunken", "hover", "code-bg"];
const pairs: [string, string, number][] = [
  ...["ink", "ink-2", "ink-3", "accent-text", "danger-text"].flatMap((text) =>
    grounds.map((ground): [string, string, number] => [text, ground, 4.5]),
  ),
  ...["ok", "warn", "info", "violet", "pink", "danger", "accent"].map((name): [string, string, number] => [
    `${name}-text`,
    `${name}-soft`,
    4.5,
  ]),
  ...["ok", "warn", "info", "danger"].map((name): [string, string, number] => ["ink-2", `${name}-soft`, 4.5]),
  ...["code-key", "code-string", "code-number", "code-word"].map((name): [string, string, number] => [
    name,
    "code-bg",
    4.5,
  ]),
  ["ink-2", "muted-soft", 4.5],
  ["ink-3", "muted-soft", 4.5],
  ["primary-on", "primary", 4.5],
  ["primary-on", "primary-strong", 4.5],
  ["accent-on", "accent", 4.5],
  ["accent-on", "accent-strong", 4.5],
  ["danger-on", "danger", 4.5],
  ["danger-on", "danger-strong", 4.5],
  ...["surface", "bg", "raised"].flatMap((ground): [string, string, number][] => [
    ["field-line", ground, 3],
    ["ring", ground, 3],
  ]),
];

describe.each([
  ["light", "@theme static {"],
  ["dark", '[data-theme="dark"] {'],
])("%s", (_, selector) => {
  const theme = tokens(selector);
  it.each(pairs)("%s on %s holds %d:1", (front, back, least) => {
    const a = theme.get(front);
    const b = theme.get(back);
    if (!a || !b) throw new Error(`no token ${front} or ${back}`);
    expect(contrast(a, b)).toBeGreaterThanOrEqual(least);
  });
});
