import { fieldErrors } from "./control";

/** The complaint about a field, or about one of its values: queues, or queues[1]. */
export function wrongAbout(error: unknown): (field: string) => string | undefined {
  const all = Object.entries(fieldErrors(error));
  return (field) => all.find(([path]) => path === field || path.startsWith(`${field}[`))?.[1];
}
