/** "a:1, b:2" as an object; null if it is not that. */
export function parseTags(text: string): Record<string, string> | null {
  const tags: Record<string, string> = {};
  for (const part of text.split(",")) {
    const tag = part.trim();
    if (!tag) continue;
    const at = tag.indexOf(":");
    if (at <= 0 || at === tag.length - 1) return null;
    tags[tag.slice(0, at).trim()] = tag.slice(at + 1).trim();
  }
  return tags;
}
