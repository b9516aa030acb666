// Whether this browser asked for a sign-in link. A link that somebody else sent must not
// sign a person in, as that somebody, without a word: it then takes a click.

const KEY = "corvo.asked";
// As long as a link works, and some minutes more.
const GOOD_FOR = 20 * 60_000;

export function rememberAsked(): void {
  try {
    localStorage.setItem(KEY, String(Date.now()));
  } catch {
    // Without storage every link takes a click.
  }
}

export function askedHere(): boolean {
  try {
    const at = Number(localStorage.getItem(KEY) ?? 0);
    return Date.now() - at < GOOD_FOR;
  } catch {
    return false;
  }
}
