const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** The paths of an update mask: the fields whose values are not what they were. */
export function changedPaths(now: object, before: object, within = ""): string[] {
  const was = new Map(Object.entries(before));
  return Object.entries(now).flatMap(([name, value]) => {
    const path = within + snake(name);
    const old = was.get(name);
    if (value === old || (Array.isArray(value) && JSON.stringify(value) === JSON.stringify(old))) return [];
    return typeof value === "object" && !Array.isArray(value) ? changedPaths(value, old, `${path}.`) : [path];
  });
}
