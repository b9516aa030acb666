// Every part of the console is asked for while nothing else goes on. A page then opens
// at once, also when the service is down: what it says about its data is ours to say.

let begun = false;

/** Fetches all parts, once. What does not come is asked for again when it is needed. */
export async function prefetchParts(): Promise<void> {
  if (begun || import.meta.env.DEV || saving()) return;
  begun = true;
  try {
    const parts = (await (await fetch("/parts.json")).json()) as string[];
    for (const href of parts) document.head.append(link(href));
  } catch {
    begun = false;
  }
}

function link(href: string): HTMLLinkElement {
  const element = document.createElement("link");
  element.rel = "modulepreload";
  element.href = href;
  element.fetchPriority = "low";
  return element;
}

/** Whether the reader asked for less traffic. */
function saving(): boolean {
  return (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;
}
