// Where to go after a sign-in by mail: the link opens a new page, which cannot see
// the address of this one. A path of ours only, and only in this browser.

const KEY = "corvo.next";

export function rememberNext(path: string | undefined): void {
  try {
    if (path) localStorage.setItem(KEY, path);
    else localStorage.removeItem(KEY);
  } catch {
    // Without storage the sign-in leads home.
  }
}

export function takeNext(): string | null {
  try {
    const path = localStorage.getItem(KEY);
    localStorage.removeItem(KEY);
    return path && isOwnPath(path) ? path : null;
  } catch {
    return null;
  }
}

/**
 * A path on this origin: never "//host" or "/\host", which browsers take for another,
 * nor what becomes one when a browser leaves out tabs and line breaks.
 */
export function isOwnPath(path: string): boolean {
  return /^\/(?![/\\])[^\t\n\r]*$/.test(path);
}
