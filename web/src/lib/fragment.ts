/**
 * Takes the one-time token out of the address (#token=…) and out of the history, so
 * that it is neither copied with the link nor found by going back.
 */
export function takeToken(): string {
  const token = new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "";
  if (token)
    window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  return token;
}

/**
 * Takes the token of a page once and keeps it: the address loses it, and React may mount
 * the page twice.
 */
export function tokenHolder(): () => string {
  let held = "";
  return () => {
    held = takeToken() || held;
    return held;
  };
}
