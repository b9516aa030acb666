// Sets the theme before the first paint. A file of its own, because the content
// security policy allows no inline script.
(() => {
  let theme = "system";
  try {
    theme = localStorage.getItem("corvo.theme") || "system";
  } catch {
    // Storage may be forbidden; the system's theme is a fine default.
  }
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
