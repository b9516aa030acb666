// As many as a spend limit has.
const MOST = 5;

/** "50, 80, 100" → [50, 80, 100]; undefined unless they are up to five different ones from 1 to 100. */
export function parsePercents(text: string): number[] | undefined {
  const words = text.split(/[\s,;%]+/).filter(Boolean);
  const numbers = words.map((word) => (/^\d{1,3}$/.test(word) ? Number(word) : 0));
  const right = numbers.every((number) => number >= 1 && number <= 100);
  if (!right || numbers.length > MOST || new Set(numbers).size < numbers.length) return undefined;
  return numbers.sort((a, b) => a - b);
}
